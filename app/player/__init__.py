"""The player: one canvas with one clock, drawn in the browser from one packed payload."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from app.moving import Moving

TITLE = "Player"
HERE = Path(__file__).parent
# one module to the browser, so each file uses what stands before it
MODULES = (
    *("format", "look", "unpack", "model", "rows", "story", "backwardstory"),
    *("grid", "gridpanel", "panels", "backwardview", "race", "layout", "stage"),
    *("table", "ownkeys", "transport", "controls", "tip", "narrator", "gif", "film", "moment", "player"),
)


@lru_cache(maxsize=1)
def moving() -> Moving:
    """The player as a component."""
    modules = [HERE / f"{name}.js" for name in MODULES]
    return Moving.of("attention_player", HERE / "player.html", [HERE / "player.css"], modules)


def player(payload: bytes, *, key: str = "player") -> None:
    """Show what `payload.build` packed; a changed payload under the same key keeps the place in the run."""
    moving().show(payload, key=key, title=TITLE)
