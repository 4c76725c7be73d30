"""What each consumer of a tile visits (flash3): not the key blocks that none of its rows sees; modelled."""

from __future__ import annotations

import numpy as np

from engine.model.launch import Launch
from engine.model.pipeline import arithmetic_seconds
from engine.model.rates import WARP_GROUP_ROWS, Rates
from engine.model.sharing import Visit
from engine.model.tiles import apart_seconds
from engine.problem.bounds import blocks, visible_keys


def tile_visits(launch: Launch, visit: Visit, rates: Rates) -> np.ndarray:
    """[query blocks] float64 visits of each tile: those of fewer consumers are shorter, masked ones longer.

    Under the products of a consumer by itself runs no other's softmax.
    """
    first, stop, cut = _own_blocks(launch)
    groups, whole = len(first), visit.alone(launch.pipeline)
    if not launch.algorithm.skips(launch.problem, launch.tiling):
        first, stop = (np.broadcast_to(each, first.shape) for each in (first.min(0), stop.max(0)))
    begun, ended = np.sort(first, 0)[::-1], np.sort(stop, 0)
    visits = np.maximum(ended[0] - begun[0], 0) + cut * visit.masking / whole
    for absent in range(1, groups):
        part = (groups - absent) / groups
        some = arithmetic_seconds(launch.pipeline, part * visit.tensor, part * visit.softmax)
        if absent == groups - 1:
            some = part * apart_seconds(launch, rates)
        visits += some / whole * (ended[absent] - ended[absent - 1] + begun[absent - 1] - begun[absent])
    return visits - (ended[-1] > ended[0]) * (apart_seconds(launch, rates) / whole - 1)


def _own_blocks(launch: Launch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and one past the last key block of each consumer; how many of its own the mask cuts, on average.

    [consumers, query blocks], twice, and [query blocks]. A consumer without rows has another's.
    """
    problem, tiling, (phase,) = launch.problem, launch.tiling, launch.schedule.phases
    groups, width = tiling.block_q // WARP_GROUP_ROWS, tiling.block_kv
    tiles = np.arange(0, problem.seq_q, tiling.block_q)
    row = tiles + WARP_GROUP_ROWS * np.arange(groups)[:, None]
    row = np.minimum(row, (problem.seq_q - 1) // WARP_GROUP_ROWS * WARP_GROUP_ROWS)
    low, whole_end = visible_keys(problem, row)
    whole_low, end = visible_keys(problem, np.minimum(row + WARP_GROUP_ROWS, problem.seq_q) - 1)
    before = 0 if phase.boxes is None else problem.positions(tiles)
    first, stop = (low - before) // width, blocks(end - before, width)
    stop = np.maximum(stop, first)
    # the last keys are masked while softmax waits for the first products: as measured, for nothing
    whole_end = np.where(whole_end == problem.seq_kv, stop, (whole_end - before) // width)
    full = whole_end - blocks(whole_low - before, width)
    return first, stop, (stop - first - np.clip(full, 0, stop - first)).mean(0)
