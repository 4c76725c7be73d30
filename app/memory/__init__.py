"""The memories of a GPU as pictures of their own: sizes and rates, and how far N × N matrices fill them."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.canvas.moving import Moving
from engine.experiment import Experiment
from engine.problem.hardware import Gpu
from engine.studies.calibrated import memories
from engine.studies.survey import growth

HERE = Path(__file__).parent
MEMORIES = Moving("memories", HERE / "memory.html", "Memories")
GROWTH = Moving("growing_matrix", HERE / "growth.html", "The N × N matrices in memory")


def show(gpu: Gpu, *, key: str = "memories") -> None:
    """Show a GPU's memories."""
    MEMORIES.show(payload(gpu), key=key, title=f"Memories of the {gpu.name}")


def payload(gpu: Gpu) -> dict[str, Any]:
    """What the picture needs: each memory's name, bytes, parts and rates, the registers first."""
    return {"gpu": gpu.name, "memories": [asdict(memory) for memory in memories(gpu)]}


def growth_payload(experiment: Experiment) -> dict[str, Any]:
    """What the picture of growth needs: bytes, and the problem's lengths."""
    problem = experiment.problem
    return {
        **asdict(growth(experiment)),
        "gpu": experiment.gpu.name,
        "heads": problem.all_heads,
        "queries": problem.seq_q,
        "keys": problem.seq_kv,
    }
