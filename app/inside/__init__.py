"""Inside one block of threads: its lanes over time as one still picture, and a playhead that walks through it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.player import HERE as PLAYER
from engine.lanes import Inside

HERE = Path(__file__).parent
SOURCES = (PLAYER / "format.js", PLAYER / "look.js", HERE / "picture.js", HERE / "inside.js")


@lru_cache(maxsize=1)
def _component():
    """The component, registered when a page first needs it."""
    return st.components.v2.component(
        "inside_a_block",
        html=(HERE / "inside.html").read_text("utf-8"),
        css=(HERE / "inside.css").read_text("utf-8"),
        js="\n".join(source.read_text("utf-8") for source in SOURCES),
    )


def show(block: Inside, *, key: str = "inside") -> None:
    """Show a block's lanes; another block under the same key keeps the playhead's share of the way."""
    _component()(key=key, data=payload(block))


def payload(block: Inside) -> dict[str, Any]:
    """What the picture needs: lanes with marks of [operation, key block, start, end], seconds."""
    lanes = block.lanes
    return {
        "lanes": [
            {
                "name": lane.name,
                "marks": [[mark.operation, mark.key_block, mark.start, mark.end] for mark in lane.marks],
            }
            for lane in lanes.lanes
        ],
        "seconds": lanes.seconds,
        "switch": block.switch,
        "origin": lanes.origin,
        "visits": block.visits,
        "visits_in_all": block.visits_in_all,
    }
