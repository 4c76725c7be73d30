"""Blocks of threads placed on SMs as the hardware does: each goes, in launch order, where a place falls free.

The first go to the SMs in turn. An SM has so many places, and the blocks on it share it: one runs the faster
the fewer others are there. While blocks wait to be launched every place is taken; after that each SM drains
on its own. `speeds` [places + 1] says how fast a block runs where so many are on its SM, as a multiple of
where all places are taken.
"""

from __future__ import annotations

import heapq

import numpy as np


def place(seconds: np.ndarray, sms: int, speeds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sm, start, end), each [blocks], of blocks that take `seconds` [blocks] where all places are taken."""
    places = len(speeds) - 1
    free = [(0.0, slot) for slot in range(min(len(seconds), sms * places))]
    taken = []
    for length in seconds.tolist():
        start, slot = free[0]
        heapq.heapreplace(free, (start + length, slot))
        taken.append((start, slot))
    starts, slots = np.array(taken).T
    slots = slots.astype(np.int64)
    ends = starts + seconds
    running = ends > starts[-1]  # when the last is launched
    left = np.zeros(sms * places)
    left[slots[running]] = ends[running] - starts[-1]
    drained = _drained(left.reshape(places, sms), speeds).reshape(-1)
    ends[running] = starts[-1] + drained[slots[running]]
    return slots % sms, starts, ends


def makespan_alike(count: int, seconds: float, sms: int, speeds: np.ndarray) -> float:
    """When the last of so many equal blocks ends: full rounds, and the rest as `place` places it."""
    rounds, rest = divmod(count, sms * (len(speeds) - 1))
    return seconds * (rounds + (1 / float(speeds[-(-rest // sms)]) if rest else 0))


def _drained(left: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """[places, sms] when each block ends that has `left` seconds, at full places, to go; 0 for none."""
    places = len(left)
    order = np.argsort(left, axis=0, kind="stable")
    steps = np.diff(np.take_along_axis(left, order, 0), axis=0, prepend=0.0)
    ends = np.cumsum(steps / speeds[places - np.arange(places)][:, None], axis=0)
    drained = np.empty_like(left)
    np.put_along_axis(drained, order, ends, 0)
    return drained
