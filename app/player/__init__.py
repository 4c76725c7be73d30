"""The player: one canvas with one clock, drawn in the browser from one packed payload."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from app.canvas.moving import CANVAS, Moving

TITLE = "Player"
HERE = Path(__file__).parent


@lru_cache(maxsize=1)
def moving() -> Moving:
    """The player as a component."""
    styles = [CANVAS / "canvas.css", HERE / "player.css"]
    return Moving.of("attention_player", HERE / "player.html", styles, HERE / "player.js")


def player(payload: bytes, *, key: str = "player") -> None:
    """Show what `payload.build` packed; a changed payload under the same key keeps the place in the run."""
    moving().show(payload, key=key, title=TITLE)
