"""Blocks of threads placed on SMs as the hardware does: each goes, in launch order, where a place falls free.

The first go where `handing_out` says. An SM has so many places, and the blocks on it share it: one runs the
faster the fewer others are there. While blocks wait to be launched every place is taken; after that each SM
drains on its own. `speeds` [places + 1] says how fast a block runs where so many are on its SM, as a multiple
of where all places are taken. Equal blocks that stay `in_step` with those beside them end with them. Of a
last round some SMs then take two before all have one: by traces of an H200 one in ONE_MORE.
"""

from __future__ import annotations

import heapq
from functools import lru_cache

import numpy as np

from engine.model.handing_out import first_sms

ONE_MORE = 4  # of 180 SMs with blocks of a last round 44 had two


def place(
    seconds: np.ndarray, sms: int, speeds: np.ndarray, in_step: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sm, start, end), each [blocks], of blocks that take `seconds` [blocks] where all places are taken."""
    places = len(speeds) - 1
    free = [(0.0, order, slot) for order, slot in enumerate(_first(min(len(seconds), sms * places), sms))]
    turn = _turns(sms, places, in_step)
    taken = []
    for length in seconds.tolist():
        start, _, slot = free[0]
        heapq.heapreplace(free, (start + length, turn[slot], slot))
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


def place_ahead(seconds: np.ndarray, sms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `place`, where each SM has one block that stays and draws its next tile as it begins one."""
    begun = [(0.0, sm) for sm in range(min(sms, len(seconds)))]  # of each SM's last drawn tile
    free = np.zeros(sms)
    starts, places = np.zeros(len(seconds)), np.zeros(len(seconds), np.int64)
    for tile, length in enumerate(seconds.tolist()):
        _, sm = begun[0] if tile >= sms else (0.0, tile)
        starts[tile], places[tile] = free[sm], sm
        if tile >= sms:
            heapq.heapreplace(begun, (float(free[sm]), sm))
        free[sm] += length
    return places, starts, starts + seconds


def makespan_alike(count: int, seconds: float, sms: int, speeds: np.ndarray, in_step: bool = False) -> float:
    """When the last of so many equal blocks ends: full rounds, and the rest as `place` places it."""
    places = len(speeds) - 1
    rounds, rest = divmod(count, sms * places)
    turn = np.argsort(_turns(sms, places, in_step and rounds > 0), kind="stable")
    most = np.bincount(turn[:rest] % sms).max() if rest else 0
    return seconds * (rounds + (1 / float(speeds[most]) if rest else 0))


@lru_cache(maxsize=256)
def _first(blocks: int, sms: int) -> tuple[int, ...]:
    """[blocks] the place of each of the first, the SMs' first places before their second ones."""
    taken, slots = [0] * sms, []
    for sm in first_sms(blocks, sms):
        slots.append(taken[sm] * sms + sm)
        taken[sm] += 1
    return tuple(slots)


@lru_cache(maxsize=64)
def _turns(sms: int, places: int, in_step: bool) -> tuple[int, ...]:
    """[places of all SMs] when each takes one of equal blocks: first of all every SM's first place.

    In step every ONE_MORE-th SM takes a second one with the others' first.
    """
    slot = np.arange(sms * places)
    sooner = in_step * (slot >= sms) * (slot < 2 * sms) * (slot % sms % ONE_MORE == 0)
    return tuple((slot - sooner * sms).tolist())


def _drained(left: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """[places, sms] when each block ends that has `left` seconds, at full places, to go; 0 for none."""
    places = len(left)
    order = np.argsort(left, axis=0, kind="stable")
    steps = np.diff(np.take_along_axis(left, order, 0), axis=0, prepend=0.0)
    ends = np.cumsum(steps / speeds[places - np.arange(places)][:, None], axis=0)
    drained = np.empty_like(left)
    np.put_along_axis(drained, order, ends, 0)
    return drained
