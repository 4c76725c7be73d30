"""One sequence over several GPUs: a canvas with who holds what, what travels, every GPU's lanes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from app.across.payload import build as payload
from app.canvas.moving import CANVAS, Moving
from engine.model.cluster.lanes import Lanes

HERE = Path(__file__).parent
TITLE = "Across GPUs"


@lru_cache(maxsize=1)
def moving() -> Moving:
    """The picture as a component."""
    styles = [CANVAS / "canvas.css", HERE / "across.css"]
    return Moving.of("attention_across_gpus", HERE / "across.html", styles, HERE / "across.js")


def show(runs: Sequence[Lanes], *, key: str = "across") -> None:
    """Show runs of one problem under one clock; others under the same key keep the share of the way."""
    moving().show(payload(runs), key=key, title=TITLE)
