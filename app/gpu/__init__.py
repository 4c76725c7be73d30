"""SMs over time: one canvas that replays which block ran where and when, drawn in the browser."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from app.moving import Moving

HERE = Path(__file__).parent
PLAYER = HERE.parent / "player"
SHARED = ("format", "look", "unpack", "stage", "ownkeys", "transport")  # of the player
MODULES = ("placement", "chart", "replay", "controls", "gpu")


@lru_cache(maxsize=1)
def _moving() -> Moving:
    """The replay as a component."""
    modules = [PLAYER / f"{name}.js" for name in SHARED] + [HERE / f"{name}.js" for name in MODULES]
    styles = [PLAYER / "player.css", HERE / "gpu.css"]
    return Moving.of("attention_on_the_gpu", HERE / "gpu.html", styles, modules)


def on_the_gpu(payload: bytes, *, key: str) -> None:
    """Show what `payload.build` packed; a changed payload under the same key keeps the share of the run."""
    _moving().show(payload, key=key, title="SMs over time")
