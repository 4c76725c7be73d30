"""Runs on several GPUs packed for the browser: one block of bytes, laid out as `app.canvas.pack` says."""

import colorsys
from collections.abc import Sequence

import numpy as np

from app.canvas.pack import pack
from engine.model.cluster.lanes import Lanes
from engine.model.cluster.seconds import KINDS, modelled
from engine.model.cluster.spread import ALL_GATHER, ALL_TO_ALL, RING, RING_SEND, RINGS, TWO_LEVEL
from engine.model.timeline import MODELLED

MICRO = 1e6
NAMES = {
    RING: "Ring, copy engines",
    RING_SEND: "Ring, NCCL",
    ALL_GATHER: "All-gather",
    ALL_TO_ALL: "All-to-all (Ulysses)",
    TWO_LEVEL: "Ring of hosts",
}
TURN, FEW = 0.381966, 8  # of the circle of hues, between one of a few GPUs and the next: neighbours differ
ARC = 0.86  # of it, that many GPUs share in order
LIGHTNESS, SATURATION = {"dark": 0.62, "light": 0.47}, 0.42


def name_of(run: Lanes, beside: Sequence[Lanes]) -> str:
    """What a run is called among others: its order where that is what differs."""
    spread = run.spread
    if len({each.origin for each in beside}) > 1:
        source = MODELLED if run.origin == MODELLED else "recorded"
        return f"{'NCCL' if spread.method == RING_SEND else 'Ring'}, {source}"
    if len({each.spread.method for each in beside}) < len(beside):
        return "Zigzag order" if spread.zigzag else "Plain order"
    flat = spread.method == RING and spread.fabric.hosts(spread.gpus) > 1
    return "Flat ring, NCCL" if flat else NAMES[spread.method]


def owner_colours(gpus: int) -> dict[str, list[str]]:
    """A colour for each GPU, in both themes: of a few apart, of many in the order of the rainbow."""
    turn = TURN if gpus <= FEW else ARC / gpus
    return {
        theme: [
            "#{:02x}{:02x}{:02x}".format(
                *(round(255 * part) for part in colorsys.hls_to_rgb(0.58 + gpu * turn, light, SATURATION))
            )
            for gpu in range(gpus)
        ]
        for theme, light in LIGHTNESS.items()
    }


def build(runs: Sequence[Lanes]) -> bytes:
    """The payload of runs of one problem on equally many GPUs, drawn under one another on one clock."""
    spread = runs[0].spread
    header = {
        "gpus": spread.gpus,
        "causal": spread.problem.mask.causal,
        "kinds": list(KINDS),
        "owners": owner_colours(spread.gpus),
        "runs": [_about(run, runs) for run in runs],
    }
    columns = (_columns(run).items() for run in runs)
    return pack(header, {f"run{n}.{name}": values for n, own in enumerate(columns) for name, values in own})


def _about(run: Lanes, beside: Sequence[Lanes]) -> dict:
    """What is said of a run as a whole; times in microseconds, the block in bytes."""
    spread = run.spread
    one_gpu = run.one_gpu or modelled(spread, run.backward).one_gpu
    return {
        "name": name_of(run, beside),
        "ring": spread.method in RINGS,
        "gathers": spread.method == ALL_GATHER,
        "hosts": spread.method == TWO_LEVEL,
        "host": spread.fabric.host,
        "groups": spread.groups,
        "owners": [int(gpu) for gpu in spread.order.holders(spread.order.chunks)],  # of each chunk
        "origin": run.origin,
        "efficiency": one_gpu / (spread.gpus * run.seconds),
        "oneGpu": one_gpu * MICRO,
        "busy": run.busy_share,
        "block": spread.block,
        "backward": run.backward,
        "length": run.seconds * MICRO,
    }


def _columns(run: Lanes) -> dict[str, np.ndarray]:
    marks = run.marks
    tiles = [tile for mark in marks for tile in mark.tiles]
    return {
        "gpu": np.array([mark.gpu for mark in marks], np.uint8),
        "kind": np.array([KINDS.index(mark.kind) for mark in marks], np.uint8),
        "round": np.array([mark.round for mark in marks], np.int16),
        "owner": np.array([mark.owner for mark in marks], np.int16),
        "start": np.array([mark.start * MICRO for mark in marks], np.float32),
        "end": np.array([mark.end * MICRO for mark in marks], np.float32),
        "tileFrom": np.cumsum([0, *(len(mark.tiles) for mark in marks)]).astype(np.int32),
        "tileQuery": np.array([query for query, _ in tiles], np.uint8),
        "tileKey": np.array([key for _, key in tiles], np.uint8),
    }
