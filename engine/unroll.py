"""Loop nests unrolled to columns: views of one allocation, filled run by run of alike outer blocks."""

from __future__ import annotations

import numpy as np

from engine.schedule import (
    MATRIX_PRODUCTS,
    Columns,
    Operation,
    Phase,
    Schedule,
    Step,
    Tensor,
    block_bytes,
    matrix_flops,
)


def unroll(schedule: Schedule) -> Columns:
    """Every step of the loop nests, in order."""
    problem, tiling = schedule.problem, schedule.tiling
    # only a softmax over whole rows can outgrow int32 in a step; a tile of 1024 x 1024 x 256 does not
    wide = any(phase.before and not phase.each for phase in schedule.phases)
    wide = wide and tiling.block_q * problem.seq_kv * problem.itemsize > np.iinfo(np.int32).max
    columns, start = Columns.empty(schedule.steps, wide), 0
    for index, phase in enumerate(schedule.phases):
        part = columns.part(start, start + phase.steps)
        part.phase[:] = index
        _unroll_phase(schedule, phase, part)
        start += phase.steps
    return columns


def _unroll_phase(schedule: Schedule, phase: Phase, columns: Columns) -> None:
    """Fill one phase's columns, run by run of outer blocks that visit equally many inner blocks."""
    visits = phase.visits
    edges = np.flatnonzero(np.diff(visits)) + 1
    start = 0
    for low, high in zip(np.append(0, edges).tolist(), np.append(edges, len(visits)).tolist(), strict=True):
        per_outer = len(phase.before) + len(phase.each) * int(visits[low]) + len(phase.after)
        stop = start + per_outer * (high - low)
        _fill(schedule, phase, columns.part(start, stop), np.arange(low, high), int(visits[low]))
        start = stop


def _fill(schedule: Schedule, phase: Phase, columns: Columns, outer: np.ndarray, visits: int) -> None:
    """Fill the columns of some outer blocks that make equally many visits: contiguous, so views suffice."""
    if not len(columns):
        return
    grid = Columns(*(column.reshape(len(outer), -1) for column in columns.arrays()))
    block = outer // phase.splits
    (grid.query_block if phase.outer == "query" else grid.key_block)[:] = block[:, None]
    (grid.key_block if phase.outer == "query" else grid.query_block)[:] = -1
    before, middle = len(phase.before), len(phase.before) + len(phase.each) * visits
    for at, step in enumerate(phase.before):
        _write(schedule, step, grid, slice(at, at + 1), phase, block)
    for at, step in enumerate(phase.after, start=middle):
        _write(schedule, step, grid, slice(at, at + 1), phase, block)
    inner = phase.first[outer][:, None] + np.arange(visits)[:: -1 if phase.reverse else 1]
    for at, step in enumerate(phase.each, start=before):
        _write(schedule, step, grid, slice(at, middle, len(phase.each)), phase, block, inner)


def _write(schedule, step: Step, grid: Columns, at: slice, phase: Phase, outer, inner=None) -> None:
    """Write one step of the loop body into its places in all outer blocks, and in all visits."""
    query, key = (outer[:, None], inner) if phase.outer == "query" else (inner, outer[:, None])
    if inner is not None:
        (grid.key_block if phase.outer == "query" else grid.query_block)[:, at] = inner
    query_rows = schedule.problem.seq_q if query is None else schedule.query_rows[query]
    key_rows = schedule.problem.seq_kv if key is None else schedule.key_rows[key]
    grid.operation[:, at] = step.operation
    grid.tensor[:, at] = step.tensor
    if step.tensor != Tensor.NONE:
        amount = step.times * block_bytes(schedule.problem, step.tensor).of(query_rows, key_rows)
        (grid.read_bytes if step.operation == Operation.LOAD else grid.written_bytes)[:, at] = amount
    elif step.operation in MATRIX_PRODUCTS:
        grid.flops[:, at] = matrix_flops(schedule.problem).of(query_rows, key_rows)
