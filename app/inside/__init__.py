"""Inside one block of threads: its lanes over time as a still picture, with a playhead that walks through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.canvas.moving import Moving
from app.figures.shared_tables import palettes
from engine.model.warp_groups import Inside

INSIDE = Moving("inside_a_block", Path(__file__).with_name("inside.html"), "Inside one block")
NARROW_NAMES = {"copies by TMA": "TMA"}  # of the copying lane, where a picture has little room


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
