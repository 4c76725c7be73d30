"""The player: one canvas with one clock, drawn in the browser from one packed payload."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent
# one module to the browser, so each file uses what stands before it
MODULES = (
    *("format", "look", "unpack", "model", "rows", "story"),
    *("grid", "gridpanel", "panels", "race", "layout", "stage"),
    *("table", "controls", "tip", "narrator", "gif", "film", "player"),
)


@lru_cache(maxsize=1)
def _component():
    """The component, registered when a page first needs it."""
    return st.components.v2.component(
        "attention_player",
        html=(HERE / "player.html").read_text("utf-8"),
        css=(HERE / "player.css").read_text("utf-8"),
        js="\n".join((HERE / f"{name}.js").read_text("utf-8") for name in MODULES),
    )


def player(payload: bytes, *, key: str = "player") -> None:
    """Show what `payload.build` packed; a changed payload under the same key keeps the place in the run."""
    _component()(key=key, data=payload)
