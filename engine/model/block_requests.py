"""The tiles that each block of a timeline visits, and the bytes that it asks of memory; counted."""

from __future__ import annotations

import numpy as np

from engine.model.grid import softmax_rows
from engine.model.launch import schedule_of
from engine.model.timeline import Timeline
from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Step, Tensor, block_bytes


def asked(timeline: Timeline) -> tuple[np.ndarray, np.ndarray]:
    """(tiles, bytes) of every block, int64 [blocks] each: bytes read and written past the SM.

    They add up to `Traffic.tiles_visited` of each kernel and to `Traffic.requested`.
    """
    schedule = schedule_of(timeline.experiment)
    tiles, amounts = np.zeros(len(timeline), np.int64), np.zeros(len(timeline), np.int64)
    for index, phase in enumerate(schedule.phases):
        of = timeline.kernel == index
        tiles[of], amounts[of] = _of_phase(
            schedule, phase, timeline.query_block[of], timeline.key_block[of], _rows(timeline, phase, of)
        )
    return tiles, amounts


def _of_phase(
    schedule: Schedule, phase: Phase, query: np.ndarray, key: np.ndarray, rows: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """(tiles, bytes) of blocks that have these query and key blocks."""
    if rows is not None:
        return np.zeros_like(rows), _moved(schedule, phase.before, rows, schedule.problem.seq_kv)
    if phase.name == "scores":
        moved = _moved(schedule, phase.each, schedule.query_rows[query], schedule.key_rows[key])
        return np.ones(len(query), np.int64), moved
    around, visits = _by_outer(schedule, phase)
    group = schedule.problem.heads // schedule.problem.kv_heads if phase.shared else 1
    tiles, amounts = phase.visits * group, around + visits * group
    outer = query if phase.outer == "query" else key
    if phase.splits > 1:  # the key block of a timeline is the split
        outer = query * phase.splits + key
    if len(outer) and outer[0] < 0:  # flash1: one block for all of them
        return np.full(len(outer), tiles.sum()), np.full(len(outer), amounts.sum())
    return tiles[outer], amounts[outer]


def _rows(timeline: Timeline, phase: Phase, of: np.ndarray) -> np.ndarray | None:
    """[blocks] rows of each block of a kernel that is launched by rows, not by blocks of them; else None."""
    if phase.name == "combine":
        return np.ones(int(of.sum()), np.int64)
    if phase.name != "softmax":
        return None
    problem = timeline.experiment.problem
    at_most = softmax_rows(problem.seq_kv)
    place = np.arange(int(of.sum())) % -(-problem.seq_q // at_most)
    return np.minimum(at_most, problem.seq_q - place * at_most)


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
    for step in _moving(phase.each):
        amount = block_bytes(schedule.problem, step.tensor)
        by_inner = amount.by_key if phase.outer == "query" else amount.by_query
        visits += _amount(schedule, step, phase, outer, passed) * (1 if by_inner else phase.visits)
    return around, visits


def _moved(schedule: Schedule, steps: tuple[Step, ...], query_rows, key_rows) -> np.ndarray:
    """Bytes that steps move for blocks of so many rows."""
    return sum(
        step.times * block_bytes(schedule.problem, step.tensor).of(query_rows, key_rows)
        for step in _moving(steps)
    )


def _amount(schedule: Schedule, step: Step, phase: Phase, outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Bytes that a step moves where the outer and inner blocks have so many rows."""
    rows = (outer, inner) if phase.outer == "query" else (inner, outer)
    return step.times * block_bytes(schedule.problem, step.tensor).of(*rows)


def _moving(steps: tuple[Step, ...]) -> list[Step]:
    return [step for step in steps if step.tensor != Tensor.NONE]
