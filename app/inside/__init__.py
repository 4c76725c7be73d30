"""Inside one block of threads: its lanes over time as a still picture, with a playhead that walks through."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from app.canvas.moving import Moving
from app.figures.shared_tables import palettes
from engine.model.warp_groups import Inside

HERE = Path(__file__).parent
NARROW_NAMES = {"copies by TMA": "TMA"}  # of the copying lane, where a picture has little room


@lru_cache(maxsize=1)
def moving() -> Moving:
    """The picture as a component."""
    return Moving.of("inside_a_block", HERE / "inside.html", [HERE / "inside.css"], HERE / "inside.js")


def show(block: Inside, *, key: str = "inside") -> None:
    """Show a block's lanes; another block under the same key keeps the playhead's share of the way."""
    moving().show(payload(block), key=key, title="Inside one block")


def payload(block: Inside) -> dict[str, Any]:
    """What the picture needs: lanes with marks of [operation, key block, start, end], seconds."""
    lanes = block.lanes
    return {
        "lanes": [
            {
                "name": lane.name,
                "short": f"group {group}" if group else NARROW_NAMES.get(lane.name, lane.name),
                "marks": [[mark.operation, mark.key_block, mark.start, mark.end] for mark in lane.marks],
            }
            for group, lane in enumerate(lanes.lanes)
        ],
        "palettes": palettes(),
        "seconds": lanes.seconds,
        "switch": block.switch,
        "origin": lanes.origin,
        "visits": block.visits,
    }
