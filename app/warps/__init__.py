"""Four warps that share a tile, by its keys and by its queries: what passes from one to another."""

from pathlib import Path

from app.canvas.moving import Played
from app.canvas.pack import pack
from app.figures.units import bytes_text
from engine.experiment import Experiment
from engine.studies.warp_partition import STEPS, WARPS, partitions

SHARING = Played("warps_share_a_tile", Path(__file__).with_name("warps.js"), "Warps that share a tile")
OFTEN = ("never", "once", "twice")
TOLD = {
    "cut": "FlashAttention-1 gives each of four warps a part of the keys, version 2 a part of the queries.",
    "scores": "Each multiplies its part of Q with its part of K: the same {scores} scores in both.",
    "maximum": (
        "A softmax needs a row's maximum. Warps that have a part of each row's keys leave theirs in shared "
        "memory, wait for all and read; warps that have whole rows know it."
    ),
    "weights": "Each turns its scores into weights.",
    "products": "With a part of the keys, O is a part of every row's sum. With whole rows it is done.",
    "sum": (
        "Four parts of O and l meet in shared memory, and all wait again: {bytes} per tile. In a head's "
        "{visits} tiles that is {all}. Warps that cut the queries exchange nothing."
    ),
}


def payload(experiment: Experiment) -> bytes:
    """The payload of one visit of a tile, a frame for each of its steps."""
    both = partitions(experiment)
    tiling, dim = experiment.tiling, experiment.problem.head_dim
    keys, queries = both["keys"], both["queries"]
    passed = keys.passed
    told = {
        "scores": f"{tiling.block_q * tiling.block_kv:,}",
        "bytes": bytes_text(passed[-1]),
        "visits": f"{keys.visits:,}",
        "all": bytes_text(passed[-1] * keys.visits),
    }
    frames = [
        {
            "sentence": TOLD[name].format(**told),
            "facts": [
                ["exchanged, keys cut", bytes_text(passed[step]), "K"],
                ["all wait, keys cut", OFTEN[keys.waits[step]], "K"],
                ["exchanged, queries cut", bytes_text(queries.passed[step]), "Q"],
                ["all wait, queries cut", OFTEN[queries.waits[step]], "Q"],
            ],
        }
        for step, name in enumerate(STEPS)
    ]
    header = {
        "frames": frames,
        "note": f"a tile of {tiling.block_q} × {tiling.block_kv}, d = {dim}, counted",
        "warps": WARPS,
        "tall": tiling.block_q / tiling.block_kv,
        "passed": {"keys": passed, "queries": queries.passed},
    }
    return pack(header, {})
