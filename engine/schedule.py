"""What happens, in order: loop nests over tiles, and the columns of every step that they unroll to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property

import numpy as np

from engine.bounds import KeyBounds, block_rows
from engine.experiment import Problem, Tiling

STATISTIC_BYTES = 4  # m, l and lse are float32 in memory whatever the dtype of the tensors


class Tensor(IntEnum):
    """What a load or a store moves. STATISTICS are m and l together."""

    NONE = 0
    Q = 1
    K = 2
    V = 3
    S = 4
    P = 5
    O = 6  # noqa: E741 - the field's name
    STATISTICS = 7
    LSE = 8


class Operation(IntEnum):
    """What one step does."""

    LOAD = 0
    SCORES = 1  # S = scale Q K^T, masked
    MAXIMUM = 2  # m' = max(m, rowmax S)
    RESCALE = 3  # alpha = exp(m - m'), P = exp(S - m')
    ACCUMULATE = 4  # l = alpha l + rowsum P, O = alpha O + P V
    STORE = 5
    SOFTMAX = 6  # unfused: P = softmax of whole rows of S


@dataclass(frozen=True)
class Step:
    """One operation of a loop body, with the tensor that it moves, if any."""

    operation: Operation
    tensor: Tensor = Tensor.NONE


def load(tensor: Tensor) -> Step:
    """Bring one block of a tensor from memory to the chip."""
    return Step(Operation.LOAD, tensor)


def store(tensor: Tensor) -> Step:
    """Bring one block of a tensor from the chip to memory."""
    return Step(Operation.STORE, tensor)


@dataclass(frozen=True)
class Phase:
    """One kernel as a loop nest: outer blocks, and for each the range of inner blocks that it visits.

    Attributes:
        name: what the kernel does.
        outer: "query" or "key": which blocks the outer loop walks.
        first, stop: [outer blocks] int64, the inner blocks visited are first to stop - 1.
        before, each, after: steps once an outer block before its visits, once a visit, once after them.
    """

    name: str
    outer: str
    first: np.ndarray
    stop: np.ndarray
    before: tuple[Step, ...] = ()
    each: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()

    @cached_property
    def visits(self) -> np.ndarray:
        """[outer blocks] int64: how many inner blocks each visits."""
        return np.maximum(self.stop - self.first, 0)


@dataclass(frozen=True)
class Columns:
    """Every step of a schedule, one head, in order; all arrays [steps]. A block of -1 means none."""

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

    def arrays(self) -> tuple[np.ndarray, ...]:
        """All columns, in the order of the fields."""
        return tuple(getattr(self, column.name) for column in fields(self))

    @classmethod
    def empty(cls, steps: int, phase: int) -> Columns:
        """Columns of a phase in which nothing moves yet; 23 bytes a step."""
        small = (np.full(steps, phase, np.uint8), np.zeros(steps, np.uint8), np.zeros(steps, np.uint8))
        blocks = (np.full(steps, -1, np.int32), np.full(steps, -1, np.int32))
        return cls(*small, *blocks, *(np.zeros(steps, np.int32) for _ in range(3)))


@dataclass(frozen=True)
class Schedule:
    """One head's work as loop nests. It knows no numbers of the matrices; equal heads are a factor."""

    problem: Problem
    tiling: Tiling
    phases: tuple[Phase, ...]
    bounds: KeyBounds

    @cached_property
    def query_rows(self) -> np.ndarray:
        """[query blocks] rows in each."""
        return block_rows(self.problem.seq_q, self.tiling.block_q)

    @cached_property
    def key_rows(self) -> np.ndarray:
        """[key blocks] rows in each."""
        return block_rows(self.problem.seq_kv, self.tiling.block_kv)

    def step_bytes(self, tensor: Tensor, query_rows, key_rows):
        """Bytes of one block of a tensor, given the rows of its query and key block."""
        problem = self.problem
        row = problem.head_dim * problem.itemsize
        if tensor in (Tensor.Q, Tensor.O):
            return query_rows * row
        if tensor in (Tensor.K, Tensor.V):
            return key_rows * row
        if tensor in (Tensor.S, Tensor.P):
            return query_rows * key_rows * problem.itemsize
        return query_rows * STATISTIC_BYTES * (2 if tensor == Tensor.STATISTICS else 1)

    def step_flops(self, operation: Operation, query_rows, key_rows):
        """Matrix FLOPs of one step: two for a multiplication and an addition; the softmax counts as none."""
        if operation in (Operation.SCORES, Operation.ACCUMULATE):
            return 2 * query_rows * key_rows * self.problem.head_dim
        return 0 * query_rows

    @cached_property
    def columns(self) -> Columns:
        """The loop nests unrolled: every step in order."""
        parts = [self._unroll(index, phase) for index, phase in enumerate(self.phases)]
        return (
            parts[0] if len(parts) == 1 else Columns(*map(np.concatenate, zip(*map(Columns.arrays, parts))))
        )

    def _unroll(self, index: int, phase: Phase) -> Columns:
        """The columns of one phase: each outer block's steps before, then its visits, then its steps after."""
        before, each, after = len(phase.before), len(phase.each), len(phase.after)
        sizes = before + each * phase.visits + after
        starts = np.cumsum(sizes) - sizes
        visit_starts = np.cumsum(phase.visits) - phase.visits
        outer = np.arange(len(sizes))
        # where each visit's steps begin: behind all earlier visits and the steps around them
        shift = (before + after) * outer + before
        visit_outer = np.repeat(outer.astype(np.int32), phase.visits)
        count = int(phase.visits.sum())
        visit_inner = (np.arange(count) + np.repeat(phase.first - visit_starts, phase.visits)).astype(
            np.int32
        )
        visit_at = np.arange(count) * each + np.repeat(shift, phase.visits)
        columns = Columns.empty(int(sizes.sum()), index)
        none = np.full(len(sizes), -1, np.int32)
        for position, step in enumerate(phase.before):
            self._write(columns, step, starts + position, phase, outer, none)
        for position, step in enumerate(phase.each):
            self._write(columns, step, visit_at + position, phase, visit_outer, visit_inner)
        for position, step in enumerate(phase.after):
            self._write(columns, step, starts + sizes - after + position, phase, outer, none)
        return columns

    def _write(self, columns: Columns, step: Step, at, phase: Phase, outer, inner) -> None:
        """Fill the rows `at` of the columns with one step on the given outer and inner blocks."""
        query, key = (outer, inner) if phase.outer == "query" else (inner, outer)
        columns.operation[at] = step.operation
        columns.tensor[at] = step.tensor
        columns.query_block[at] = query
        columns.key_block[at] = key
        query_rows, key_rows = self.query_rows[query], self.key_rows[key]
        if step.operation == Operation.LOAD:
            columns.read_bytes[at] = self.step_bytes(step.tensor, query_rows, key_rows)
        elif step.operation == Operation.STORE:
            columns.written_bytes[at] = self.step_bytes(step.tensor, query_rows, key_rows)
        else:
            columns.flops[at] = self.step_flops(step.operation, query_rows, key_rows)
