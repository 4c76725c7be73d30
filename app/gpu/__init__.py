"""SMs over time: one canvas that replays which block ran where and when, drawn in the browser."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent
PLAYER = HERE.parent / "player"
SHARED = ("format", "look", "unpack", "stage")  # of the player
MODULES = ("placement", "chart", "replay", "controls", "gpu")


@lru_cache(maxsize=1)
def _component():
    """The component, registered when the page first needs it."""
    files = [PLAYER / f"{name}.js" for name in SHARED] + [HERE / f"{name}.js" for name in MODULES]
    return st.components.v2.component(
        "attention_on_the_gpu",
        html=(HERE / "gpu.html").read_text("utf-8"),
        css=(PLAYER / "player.css").read_text("utf-8") + (HERE / "gpu.css").read_text("utf-8"),
        js="\n".join(file.read_text("utf-8") for file in files),
    )


def on_the_gpu(payload: bytes, *, key: str) -> None:
    """Show what `payload.build` packed; a changed payload under the same key keeps the share of the run."""
    _component()(key=key, data=payload)
