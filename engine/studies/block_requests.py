"""The tiles that each block of a timeline visits, and the bytes that it asks of memory; counted."""

import numpy as np

from engine.model.launch import Kernel, launch
from engine.model.timeline import Timeline
from engine.schedule.nest import HEAD, ROWS, TILE, Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Step, Tensor


def block_requests(timeline: Timeline) -> tuple[np.ndarray, np.ndarray]:
    """(tiles, bytes) of every block, int64 [blocks] each: bytes read and written past the SM.

    They add up to `Traffic.tiles_visited` of each kernel and to `Traffic.requested`.
    """
    run = launch(timeline.experiment)
    schedule = run.schedule
    tiles, amounts = np.zeros(len(timeline), np.int64), np.zeros(len(timeline), np.int64)
    for index, kernel in enumerate(run.kernels):
        of = timeline.kernel == index
        blocks = timeline.query_block[of], timeline.key_block[of]
        tiles[of], amounts[of] = _of_kernel(schedule, kernel, *blocks)
    return tiles, amounts


def _of_kernel(
    schedule: Schedule, kernel: Kernel, query: np.ndarray, key: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(tiles, bytes) of blocks that have these query and key blocks."""
    phase, problem = kernel.phase, schedule.problem
    if phase.launched == ROWS:
        before = np.arange(len(query)) % kernel.count * phase.rows  # rows of the head's earlier blocks
        rows = np.minimum(phase.rows, problem.seq_q - before)
        return np.zeros_like(rows), _moved(schedule, phase.before, rows, problem.seq_kv)
    if phase.launched == TILE:
        moved = _moved(schedule, phase.each, schedule.query_rows[query], schedule.key_rows[key])
        return np.ones(len(query), np.int64), moved
    around, visits = _by_outer(schedule, phase)
    group = problem.group if phase.shared else 1
    tiles, amounts = phase.visits * group, around + visits * group
    if phase.launched == HEAD:
        return np.full(len(query), tiles.sum()), np.full(len(query), amounts.sum())
    outer = query if phase.outer == "query" else key
    if phase.splits > 1:  # the key block of a timeline is the split
        outer = query * phase.splits + key
    return tiles[outer], amounts[outer]


def _by_outer(schedule: Schedule, phase: Phase) -> tuple[np.ndarray, np.ndarray]:
    """[outer blocks] bytes around an outer block's visits, and of all its visits together."""
    along = -1 if phase.outer == "key" else 1  # query blocks and key blocks as outer and inner ones
    outer, inner = (schedule.query_rows, schedule.key_rows)[::along]
    tall, wide = (schedule.tiling.block_q, schedule.tiling.block_kv)[::along]
    outer, visits = np.repeat(outer, phase.splits), phase.visits
    ends, none = np.concatenate(([0], np.cumsum(inner))), np.zeros_like(outer)
    passed = np.where(visits > 0, ends[phase.stop] - ends[phase.first], 0)  # rows of the inner blocks
    boxes = visits if phase.boxes is None else phase.boxes

    def moved(steps: tuple[Step, ...], rows: np.ndarray, boxed: np.ndarray, times: np.ndarray | int):
        total = none
        for step in (step for step in steps if step.tensor != Tensor.NONE):
            amount = schedule.amounts[step.tensor]
            pair = (np.full_like(outer, tall), boxed) if step.boxed else (outer, rows)
            by_inner = (amount.by_query, amount.by_key)[::along][1]
            total = total + step.times * amount.of(*pair[::along]) * (1 if by_inner else times)
        return total

    return moved(phase.before + phase.after, none, none, 1), moved(phase.each, passed, boxes * wide, visits)


def _moved(schedule: Schedule, steps: tuple[Step, ...], query_rows, key_rows) -> np.ndarray:
    moving = (step for step in steps if step.tensor != Tensor.NONE)
    return sum(step.times * schedule.amounts[step.tensor].of(query_rows, key_rows) for step in moving)
