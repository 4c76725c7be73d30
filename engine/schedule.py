"""What happens, in order: loop nests over tiles, and the columns of every step that they unroll to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property

import numpy as np

from engine.bounds import KeyBounds, block_rows
from engine.experiment import Problem, Tiling

STATISTIC_BYTES = 4  # m, l and lse are float32 in memory whatever the dtype of the tensors
PARTIAL_BYTES = 4  # and so is the O of a split


class Tensor(IntEnum):
    """What a load or a store moves.

    STATISTICS are m and l together; D_O is the gradient of O, and so on; DELTA is rowsum(dO o O); LSE_LOG2 is
    lse in units of log2, as the backward kernels read it. D_P and D_S are never in memory, only on the chip.
    PARTIAL and PARTIAL_LSE are O and lse over the keys of one split.
    """

    NONE = 0
    Q = 1
    K = 2
    V = 3
    S = 4
    P = 5
    O = 6  # noqa: E741 - the field's name
    STATISTICS = 7
    LSE = 8
    D_O = 9
    D_Q = 10
    D_K = 11
    D_V = 12
    DELTA = 13
    D_P = 14
    D_S = 15
    LSE_LOG2 = 16
    PARTIAL = 17
    PARTIAL_LSE = 18


class Operation(IntEnum):
    """What one step does."""

    LOAD = 0
    SCORES = 1  # S = scale Q K^T, masked
    MAXIMUM = 2  # m' = max(m, rowmax S)
    RESCALE = 3  # alpha = exp(m - m'), P = exp(S - m')
    ACCUMULATE = 4  # l = alpha l + rowsum P, O = alpha O + P V
    STORE = 5
    SOFTMAX = 6  # unfused: P = softmax of whole rows of S
    ROW_TERMS = 7  # backward, here and below: delta = rowsum(dO o O), and lse in units of log2
    WEIGHTS = 8  # P = exp(S - lse)
    VALUE_GRADIENT = 9  # dV += P^T dO
    WEIGHT_GRADIENT = 10  # dP = dO V^T
    SCORE_GRADIENT = 11  # dS = P o (dP - delta)
    KEY_GRADIENT = 12  # dK += dS^T Q
    QUERY_GRADIENT = 13  # dQ += dS K
    COMBINE = 14  # split keys: lse = log sum of exp(lse_i), O = sum of exp(lse_i - lse) O_i over the splits


MATRIX_PRODUCTS = (
    Operation.SCORES,
    Operation.ACCUMULATE,
    Operation.VALUE_GRADIENT,
    Operation.WEIGHT_GRADIENT,
    Operation.KEY_GRADIENT,
    Operation.QUERY_GRADIENT,
)
EXPONENTIALS = (Operation.RESCALE, Operation.SOFTMAX, Operation.WEIGHTS)  # one a score
BY_KEY = (Tensor.K, Tensor.V, Tensor.D_K, Tensor.D_V)  # a row a key; there are as many as key heads
BY_QUERY = (Tensor.Q, Tensor.O, Tensor.D_O, Tensor.D_Q)  # a row a query
PARTIALS = (Tensor.PARTIAL, Tensor.PARTIAL_LSE)  # as many as there are splits


@dataclass(frozen=True)
class Step:
    """One operation of a loop body, with the tensor that it moves, if any, and how many blocks of it."""

    operation: Operation
    tensor: Tensor = Tensor.NONE
    times: int = 1


def load(tensor: Tensor, times: int = 1) -> Step:
    """Bring a block of a tensor, or that of so many splits, from memory to the chip."""
    return Step(Operation.LOAD, tensor, times)


def store(tensor: Tensor) -> Step:
    """Bring one block of a tensor from the chip to memory."""
    return Step(Operation.STORE, tensor)


@dataclass(frozen=True)
class Amount:
    """What a step has of something: a factor times the rows of its query block, its key block, or both."""

    factor: int
    by_query: bool = False
    by_key: bool = False

    def of(self, query_rows, key_rows):
        """The amount where the blocks have so many rows; numbers or arrays that broadcast."""
        return self.factor * (query_rows if self.by_query else 1) * (key_rows if self.by_key else 1)


def block_bytes(problem: Problem, tensor: Tensor) -> Amount:
    """Bytes that one load or store of a block moves."""
    row = problem.head_dim * problem.itemsize
    if tensor in BY_KEY:
        return Amount(row, by_key=True)
    if tensor in BY_QUERY:
        return Amount(row, by_query=True)
    if tensor in (Tensor.S, Tensor.P):
        return Amount(problem.itemsize, by_query=True, by_key=True)
    if tensor == Tensor.PARTIAL:
        return Amount(problem.head_dim * PARTIAL_BYTES, by_query=True)
    return Amount(STATISTIC_BYTES * (2 if tensor == Tensor.STATISTICS else 1), by_query=True)


def copies(problem: Problem, tensor: Tensor, splits: int) -> int:
    """How many times a head's tensor lies in memory: those of keys once a key head, the others once a head.

    Partial results lie there once a split, unless there is one alone.
    """
    each = splits * (splits > 1) if tensor in PARTIALS else 1
    return problem.batch * each * (problem.kv_heads if tensor in BY_KEY else problem.heads)


def matrix_flops(problem: Problem) -> Amount:
    """FLOPs of one matrix product of a tile: a multiplication and an addition each."""
    return Amount(2 * problem.head_dim, by_query=True, by_key=True)


@dataclass(frozen=True)
class Phase:
    """One kernel as a loop nest: outer blocks, and for each the range of inner blocks that it visits.

    Attributes:
        name: what the kernel does.
        outer: "query" or "key": which blocks the outer loop walks.
        first, stop: [outer blocks] int64, the inner blocks visited are first to stop - 1.
        before, each, after: steps once an outer block before its visits, once a visit, once after them.
        reverse: whether the inner blocks come from the last to the first.
        shared: one program makes the visits of all query heads that share a key head, so that `before` and
            `after` happen once a key head.
        splits: programs that share an outer block, one after the other in `first` and `stop`.
    """

    name: str
    outer: str
    first: np.ndarray
    stop: np.ndarray
    before: tuple[Step, ...] = ()
    each: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    reverse: bool = False
    shared: bool = False
    splits: int = 1

    @cached_property
    def visits(self) -> np.ndarray:
        """[outer blocks, or programs that share them] int64: how many inner blocks each visits."""
        return np.maximum(self.stop - self.first, 0)

    @cached_property
    def sums(self) -> dict[tuple[bool, bool, bool], int]:
        """What `Schedule.total` has summed over the nest so far."""
        return {}

    @property
    def steps(self) -> int:
        """How many steps the nest unrolls to."""
        around = len(self.before) + len(self.after)
        return around * len(self.visits) + len(self.each) * int(self.visits.sum())


@dataclass(frozen=True)
class Columns:
    """Every step of a schedule, one head, in order; all arrays [steps].

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
        """Columns to be filled in; 23 bytes a step, 35 where bytes and FLOPs are wide."""
        amount = np.int64 if wide else np.int32
        dtypes = (np.uint8, np.uint8, np.uint8, np.int32, np.int32, amount, amount, amount)
        return cls(*(np.zeros(steps, dtype) for dtype in dtypes))

    def arrays(self) -> tuple[np.ndarray, ...]:
        """All columns, in the order of the fields."""
        return tuple(getattr(self, column.name) for column in fields(self))

    def part(self, start: int, stop: int) -> Columns:
        """The same columns, steps start to stop - 1, as views."""
        return Columns(*(column[start:stop] for column in self.arrays()))


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

    @property
    def steps(self) -> int:
        """How many steps one head takes; needs no columns."""
        return sum(phase.steps for phase in self.phases)

    @cached_property
    def columns(self) -> Columns:
        """The loop nests unrolled: every step in order."""
        from engine.unroll import unroll  # which is made of this module's types

        return unroll(self)

    def total(self, amount: Amount, operation: Operation, tensor: Tensor | None = None) -> int:
        """Sum of an amount over every step of an operation (and tensor), one head, from the loop nests."""
        return sum(
            count * self._phase_total(phase, amount, each)
            for phase in self.phases
            for steps, each in ((phase.before + phase.after, False), (phase.each, True))
            if (count := _blocks_moved(steps, operation, tensor))
        )

    def _phase_total(self, phase: Phase, amount: Amount, each: bool) -> int:
        """Sum of an amount over a phase's visits, or over its outer blocks; many amounts share a sum."""
        asked = amount.by_query, amount.by_key, each
        if asked not in phase.sums:
            phase.sums[asked] = self._summed(phase, *asked)
        return amount.factor * phase.sums[asked]

    def _summed(self, phase: Phase, by_query: bool, by_key: bool, each: bool) -> int:
        """That sum for a factor of 1, in O(blocks)."""
        outer, inner, by_outer, by_inner = self.query_rows, self.key_rows, by_query, by_key
        if phase.outer == "key":
            outer, inner, by_outer, by_inner = inner, outer, by_inner, by_outer
        weights = np.repeat(outer if by_outer else np.ones(len(outer), np.int64), phase.splits)
        if each and by_inner:
            ends = np.concatenate(([0], np.cumsum(inner)))
            weights = weights * np.where(phase.visits > 0, ends[phase.stop] - ends[phase.first], 0)
        elif each:
            weights = weights * phase.visits
        elif by_inner:
            weights = weights * inner.sum()
        return int(weights.sum())


def _blocks_moved(steps: tuple[Step, ...], operation: Operation, tensor: Tensor | None) -> int:
    """How often steps do an operation (on a tensor), each as many times as it moves blocks."""
    return sum(step.times for step in steps if step.operation == operation and tensor in (None, step.tensor))
