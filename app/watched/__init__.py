"""A user's kernel as it was watched: the tiles that it touched beside FlashAttention-2's, and its source."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from app.canvas.moving import CANVAS, Moving
from app.watched.payload import build

HERE = Path(__file__).parent
TITLE = "Your kernel"


@lru_cache(maxsize=1)
def moving() -> Moving:
    """The picture as a component."""
    styles = [CANVAS / "canvas.css", HERE / "watched.css"]
    return Moving.of("attention_watched", HERE / "watched.html", styles, HERE / "watched.js")


def show(found: dict[str, Any], *, key: str = "watched") -> None:
    """Show what `engine.measuring.own_kernel.watch` found; another run keeps the share of the way."""
    moving().show(build(found), key=key, title=TITLE)
