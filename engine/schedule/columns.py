"""Loop nests unrolled to columns: views of one allocation, filled run by run of alike outer blocks."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from engine.schedule.bytes import TENSORS, Bytes
from engine.schedule.nest import Phase
from engine.schedule.step import MATRIX_PRODUCTS, Operation, Step, Tensor, matrix_flops

CHUNK_STEPS = 2**18  # that are summed at a time, for the memory that this takes


@dataclass(frozen=True)
class Columns:
    """Every step of a schedule, one head, in order; all arrays [steps].

    >>> from engine import Experiment, simulate
    >>> columns = simulate(Experiment.of(seq=64)).schedule.columns
    >>> [Operation(step).name for step in columns.operation[:5]]
    ['LOAD', 'LOAD', 'LOAD', 'SCORES', 'MAXIMUM']

    A block of -1 means none: around the visits, and in a softmax over whole rows, which covers all keys.
    Bytes and FLOPs are int32, or int64 where one step has more.
    """

    phase: np.ndarray
    operation: np.ndarray
    tensor: np.ndarray
    query_block: np.ndarray
    key_block: np.ndarray
    read_bytes: np.ndarray
    written_bytes: np.ndarray
    flops: np.ndarray

    def __len__(self) -> int:
        return len(self.operation)

    @classmethod
    def empty(cls, steps: int, wide: bool) -> Columns:
        """Columns to be filled in; 23 bytes per step, 35 where bytes and FLOPs are wide."""
        amount = np.int64 if wide else np.int32
        dtypes = (np.uint8, np.uint8, np.uint8, np.int32, np.int32, amount, amount, amount)
        return cls(*(np.zeros(steps, dtype) for dtype in dtypes))

    def arrays(self) -> tuple[np.ndarray, ...]:
        """All columns, in the order of the fields."""
        return tuple(getattr(self, column.name) for column in fields(self))

    def part(self, start: int, stop: int) -> Columns:
        """The same columns, steps start to stop - 1, as views."""
        return Columns(*(column[start:stop] for column in self.arrays()))

    def moved(self) -> Bytes:
        """Bytes by tensor, summed over the steps: what loop nests request without unrolling them."""
        read, written = np.zeros(len(Tensor), np.int64), np.zeros(len(Tensor), np.int64)
        for start in range(0, len(self), CHUNK_STEPS):
            part = self.part(start, start + CHUNK_STEPS)
            for amounts, into in ((part.read_bytes, read), (part.written_bytes, written)):
                into += np.bincount(part.tensor, weights=amounts, minlength=len(Tensor)).astype(np.int64)
        return Bytes.of(*({tensor: int(into[tensor]) for tensor in TENSORS} for into in (read, written)))


def unroll(schedule) -> Columns:
    """Every step of a schedule's loop nests, in order; of which tiling, rows and bytes are asked."""
    problem, phases = schedule.problem, schedule.phases
    # only a softmax over whole rows can outgrow int32 in a step; a tile of 1024 x 1024 x 256 does not
    wide = any(phase.before and not phase.each for phase in phases)
    wide = wide and int(schedule.query_rows[0]) * problem.seq_kv * problem.itemsize > np.iinfo(np.int32).max
    columns, start = Columns.empty(sum(phase.steps for phase in phases), wide), 0
    for index, phase in enumerate(phases):
        part = columns.part(start, start + phase.steps)
        part.phase[:] = index
        _unroll_phase(schedule, phase, part)
        start += phase.steps
    return columns


def _unroll_phase(schedule, phase: Phase, columns: Columns) -> None:
    """Fill one phase's columns, run by run of outer blocks that visit equally many inner blocks."""
    visits = phase.visits
    edges = np.flatnonzero(np.diff(visits)) + 1
    start = 0
    for low, high in zip(np.append(0, edges).tolist(), np.append(edges, len(visits)).tolist(), strict=True):
        per_outer = len(phase.before) + len(phase.each) * int(visits[low]) + len(phase.after)
        stop = start + per_outer * (high - low)
        _fill(schedule, phase, columns.part(start, stop), np.arange(low, high), int(visits[low]))
        start = stop


def _fill(schedule, phase: Phase, columns: Columns, outer: np.ndarray, visits: int) -> None:
    """Fill the columns of some outer blocks that make equally many visits: contiguous, so views suffice."""
    if not len(columns):
        return
    grid = Columns(*(column.reshape(len(outer), -1) for column in columns.arrays()))
    block = outer // phase.splits
    (grid.query_block if phase.outer == "query" else grid.key_block)[:] = block[:, None]
    (grid.key_block if phase.outer == "query" else grid.query_block)[:] = -1
    before, middle = len(phase.before), len(phase.before) + len(phase.each) * visits
    # once an outer block: what is loaded before its visits, what is stored after them
    for at, step in enumerate(phase.before):
        _write(schedule, step, grid, slice(at, at + 1), phase, block)
    for at, step in enumerate(phase.after, start=middle):
        _write(schedule, step, grid, slice(at, at + 1), phase, block)
    # once a visit: the inner loop's body, over the inner blocks that the mask leaves
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
    # what is done, and on which tensor
    grid.operation[:, at] = step.operation
    grid.tensor[:, at] = step.tensor
    # what it moves or multiplies: ragged blocks less than whole ones
    if step.tensor != Tensor.NONE:
        rows = (schedule.tiling.block_q, schedule.tiling.block_kv) if step.boxed else (query_rows, key_rows)
        boxes = phase.boxes_at(outer[:, None], inner) if step.boxed and inner is not None else 1
        amount = step.times * boxes * schedule.amounts[step.tensor].of(*rows)
        (grid.read_bytes if step.operation == Operation.LOAD else grid.written_bytes)[:, at] = amount
    elif step.operation in MATRIX_PRODUCTS:
        grid.flops[:, at] = matrix_flops(schedule.problem, step.operation).of(query_rows, key_rows)
