"""The memories of a GPU as pictures of their own: sizes and rates, and how far N × N matrices fill them."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.canvas.moving import Moving
from app.figures.shared_tables import palettes
from engine.experiment import Experiment
from engine.model.memories import memories
from engine.problem.hardware import Gpu
from engine.studies.survey import growth

HERE = Path(__file__).parent


@lru_cache(maxsize=1)
def moving() -> Moving:
    """The picture as a component."""
    return Moving.of("memories", HERE / "memory.html", [HERE / "memory.css"], HERE / "memory.js")


def show(gpu: Gpu, *, key: str = "memories") -> None:
    """Show a GPU's memories."""
    moving().show(payload(gpu), key=key, title=f"Memories of the {gpu.name}")


def payload(gpu: Gpu) -> dict[str, Any]:
    """What the picture needs: each memory's name, bytes, parts and rates, the registers first."""
    return {
        "gpu": gpu.name,
        "memories": [asdict(memory) for memory in memories(gpu)],
        "palettes": palettes(),
    }


@lru_cache(maxsize=1)
def growing() -> Moving:
    """The matrix of scores in the GPU's memory, as a component."""
    return Moving.of("growing_matrix", HERE / "growth.html", [HERE / "growth.css"], HERE / "growth.js")


def show_growth(experiment: Experiment) -> None:
    """Show how far the matrices of scores fill the GPU's memory; another length grows from the one before."""
    growing().show(growth_payload(experiment), key="growth", title="The N × N matrices in memory")


def growth_payload(experiment: Experiment) -> dict[str, Any]:
    """What the picture of growth needs: bytes, and the problem's lengths."""
    problem = experiment.problem
    return {
        **asdict(growth(experiment)),
        "gpu": experiment.gpu.name,
        "heads": problem.all_heads,
        "queries": problem.seq_q,
        "keys": problem.seq_kv,
        "palettes": palettes(),
    }
