"""Inside one block of threads: its lanes over time as a still picture, with a playhead that walks through."""

from functools import reduce
from pathlib import Path

from app.canvas.moving import Played
from app.canvas.pack import pack
from engine.studies import tensor_memory as blackwell
from engine.studies.warp_groups import PV, QK, SOFTMAX, STORE, Inside

INSIDE = Played("inside_a_block", Path(__file__).with_name("inside.js"), "Inside one block")
SHORT = (  # of lanes' names, where a picture has little room
    ("copies by ", ""),
    ("warp group", "group"),
    ("softmax group", "softmax"),
    ("correction group", "correction"),
)
COPIES = {name: (name, name, f"{name}{{}}", f"{name}{{}}", f"{name}{{}}", "") for name in ("K", "V", "Q")}
# of an operation: its row, its colour, its name, what it makes, what somebody does, and its name among the
# colours; {} is its key block
HOPPER = {
    **COPIES,
    QK: ("products", "S", "Q K{}ᵀ", "S{}", "Q K{}ᵀ", "Q Kᵀ"),
    SOFTMAX: ("softmax", "statistics", "softmax S{}", "P{}", "softmax of S{}", "softmax S"),
    PV: ("products", "O", "P V{}", "O{}", "P V{}", "P V"),
    STORE: ("products", "O", "store O", "store O", "writing O", ""),
}
FIRST, SECOND = blackwell.TILES
BLACKWELL = {
    **COPIES,
    blackwell.QK[FIRST]: ("tile 1", "S", "Q₁ K{}ᵀ", "S{}", "Q₁ K{}ᵀ", "Q Kᵀ"),
    blackwell.QK[SECOND]: ("tile 2", "S", "Q₂ K{}ᵀ", "S{}", "Q₂ K{}ᵀ", ""),
    blackwell.PV[FIRST]: ("tile 1", "O", "P₁ V{}", "O", "P₁ V{}", "P V"),
    blackwell.PV[SECOND]: ("tile 2", "O", "P₂ V{}", "O", "P₂ V{}", ""),
    blackwell.MAXIMUM: ("softmax", "muted", "maximum of S{}", "m", "maximum of S{}", "maximum"),
    blackwell.EXPONENTIALS: ("softmax", "statistics", "P{}", "P{}", "exponentials of S{}", "exponentials"),
    blackwell.CORRECTION: ("O", "O", "O times α", "α O", "looking at α of S{}", "O times α"),
    blackwell.OWN: ("softmax", "O", "O times α", "α O", "rescaling O by α of S{}", ""),
    blackwell.STORE: ("O", "O", "store O", "store O", "dividing and writing O", ""),
}
COPYING = ("K", "V", "Q")
ROWS = (  # of the lanes; of Hopper's warp groups all have the last
    (COPYING, ("products", "softmax")),
    (COPYING, ("tile 1", "tile 2"), ("softmax",), ("softmax",), ("O",)),
)
FIELDS = ("row", "colour", "name", "made", "deed", "legend")
CORES = *blackwell.QK.values(), *blackwell.PV.values()
BUSY = (  # what is at work when
    (("tensor cores", "S", (QK, PV)), ("softmax units", "statistics", (SOFTMAX,))),
    (("tensor cores", "S", CORES), ("exponentials", "statistics", (blackwell.EXPONENTIALS,))),
)


def payload(block: Inside) -> bytes:
    """The payload of a block: lanes with marks of [operation, key block, start, end], seconds."""
    marks = [[] for _ in block.lanes]
    for mark in block.marks:
        marks[mark.lane].append([mark.operation, mark.key_block, mark.start, mark.end])
    fourth = block.lanes == blackwell.LANES
    operations, rows = BLACKWELL if fourth else HOPPER, ROWS[fourth]
    header = {
        "lanes": [
            {
                "name": name,
                "short": reduce(lambda text, words: text.replace(*words), SHORT, name),
                "rows": rows[min(lane, len(rows) - 1)],
                "marks": marks[lane],
            }
            for lane, name in enumerate(block.lanes)
        ],
        "operations": {name: dict(zip(FIELDS, row, strict=True)) for name, row in operations.items()},
        "outlined": blackwell.STORE if fourth else STORE,
        "busy": BUSY[fourth],
        "seconds": block.seconds,
        "switch": block.switch,
    }
    return pack(header, {})
