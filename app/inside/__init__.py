"""Inside one block of threads: its lanes over time as a still picture, with a playhead that walks through."""

from pathlib import Path
from typing import Any

from app.canvas.moving import Moving
from engine.model.timeline import MODELLED
from engine.studies.warp_groups import PV, QK, SOFTMAX, STORE, Inside

INSIDE = Moving("inside_a_block", Path(__file__).with_name("inside.html"), "Inside one block")
NARROW_NAMES = {"copies by TMA": "TMA"}  # of the copying lane, where a picture has little room
ROWS = (("K", "V", "Q"), ("products", "softmax"))  # of the copying lane, and of a warp group's
# of an operation: its row, its colour, its name, what it makes, what somebody does; {} is its key block
OPERATIONS = {
    **{name: (name, name, f"{name}{{}}", f"{name}{{}}", f"{name}{{}}") for name in ("Q", "K", "V")},
    QK: ("products", "S", "Q K{}ᵀ", "S{}", "Q K{}ᵀ"),
    SOFTMAX: ("softmax", "statistics", "softmax S{}", "P{}", "softmax of S{}"),
    PV: ("products", "O", "P V{}", "O{}", "P V{}"),
    STORE: ("products", "O", "store O", "store O", "writing O"),
}
FIELDS = ("row", "colour", "name", "made", "deed")
BUSY = (("tensor cores", "S", (QK, PV)), ("softmax units", "statistics", (SOFTMAX,)))  # what is at work when


def payload(block: Inside) -> dict[str, Any]:
    """What the picture needs: lanes with marks of [operation, key block, start, end], seconds."""
    marks = [[] for _ in block.lanes]
    for mark in block.marks:
        marks[mark.lane].append([mark.operation, mark.key_block, mark.start, mark.end])
    return {
        "lanes": [
            {
                "name": name,
                "short": f"group {lane}" if lane else NARROW_NAMES.get(name, name),
                "marks": marks[lane],
            }
            for lane, name in enumerate(block.lanes)
        ],
        "rows": ROWS,
        "operations": {name: dict(zip(FIELDS, row, strict=True)) for name, row in OPERATIONS.items()},
        "outlined": STORE,
        "busy": BUSY,
        "seconds": block.seconds,
        "switch": block.switch,
        "origin": MODELLED,
        "visits": block.visits,
    }
