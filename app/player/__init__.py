"""The player: one canvas with one clock, drawn in the browser from one packed payload."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import streamlit as st

from app import scenario

HERE = Path(__file__).parent
# one module to the browser, so each file uses what stands before it
MODULES = (
    *("format", "look", "unpack", "model", "rows", "story", "backwardstory"),
    *("grid", "gridpanel", "panels", "backwardview", "race", "layout", "stage"),
    *("table", "controls", "tip", "narrator", "gif", "film", "player"),
)


@lru_cache(maxsize=1)
def sources() -> tuple[str, str, str]:
    """The player's HTML, CSS and JavaScript."""
    js = "\n".join((HERE / f"{name}.js").read_text("utf-8") for name in MODULES)
    return (HERE / "player.html").read_text("utf-8"), (HERE / "player.css").read_text("utf-8"), js


@lru_cache(maxsize=1)
def _component():
    """The component, registered when a page first needs it."""
    html, css, js = sources()
    return st.components.v2.component("attention_player", html=html, css=css, js=js)


def player(payload: bytes, *, key: str = "player") -> None:
    """Show what `payload.build` packed; a changed payload under the same key keeps the place in the run."""
    scenario.offer(key, payload)
    _component()(key=key, data=payload)
