"""The Tiles page: attention as it runs, one tile after the other, on one screen."""

from __future__ import annotations

from app import scenario
from app.player import player
from app.player.payload import build


def show() -> None:
    """The player of the current scenario."""
    player(build(scenario.current()), key="tiles")
