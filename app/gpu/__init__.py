"""SMs over time: one canvas that replays which block ran where and when, drawn in the browser."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from app.canvas.moving import CANVAS, Moving

HERE = Path(__file__).parent


@lru_cache(maxsize=1)
def moving() -> Moving:
    """The replay as a component."""
    styles = [CANVAS / "canvas.css", HERE / "gpu.css"]
    return Moving.of("attention_on_the_gpu", HERE / "gpu.html", styles, HERE / "gpu.js")


def on_the_gpu(payload: bytes, *, key: str) -> None:
    """Show what `payload.build` packed; a changed payload under the same key keeps the share of the run."""
    moving().show(payload, key=key, title="SMs over time")
