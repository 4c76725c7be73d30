"""The memories of a GPU as a picture of its own: sizes as areas, and pipes as thick as they are fast."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.canvas.moving import Moving
from app.canvas.tables import palettes
from engine.model.memories import memories
from engine.problem.hardware import Gpu

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
