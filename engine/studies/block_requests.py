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
    outer, inner = schedule.query_rows, schedule.key_rows
    if phase.outer == "key":
        outer, inner = inner, outer
    outer = np.repeat(outer, phase.splits)
    ends = np.concatenate(([0], np.cumsum(inner)))
    passed = np.where(phase.visits > 0, ends[phase.stop] - ends[phase.first], 0)  # rows of the inner blocks
    around, visits = np.zeros(len(outer), np.int64), np.zeros(len(outer), np.int64)
    for step in _moving(phase.before + phase.after):
        around += _amount(schedule, step, phase, outer, np.zeros_like(outer))
    block = schedule.tiling.block_kv if phase.outer == "query" else schedule.tiling.block_q
    for step in _moving(phase.each):
        amount = schedule.amounts[step.tensor]
        by_inner = amount.by_key if phase.outer == "query" else amount.by_query
        boxes = phase.visits if phase.boxes is None else phase.boxes
        rows = boxes * block if step.boxed else passed
        visits += _amount(schedule, step, phase, outer, rows) * (1 if by_inner else phase.visits)
    return around, visits


def _moved(schedule: Schedule, steps: tuple[Step, ...], query_rows, key_rows) -> np.ndarray:
    """Bytes that steps move for blocks of so many rows."""
    return sum(step.times * schedule.amounts[step.tensor].of(query_rows, key_rows) for step in _moving(steps))


def _amount(schedule: Schedule, step: Step, phase: Phase, outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Bytes that a step moves where the outer and inner blocks have so many rows."""
    if step.boxed:
        outer = np.full_like(
            outer, schedule.tiling.block_q if phase.outer == "query" else schedule.tiling.block_kv
        )
    rows = (outer, inner) if phase.outer == "query" else (inner, outer)
    return step.times * schedule.amounts[step.tensor].of(*rows)


def _moving(steps: tuple[Step, ...]) -> list[Step]:
    return [step for step in steps if step.tensor != Tensor.NONE]
