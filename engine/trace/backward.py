"""The backward schedule run on numbers, as `forward` runs a forward one: counted, and within the SRAM.

The arithmetic is the kernels': P and dS rounded to the dtype before they are multiplied, sums in float32.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from engine.experiment import Experiment
from engine.model.launch import launch
from engine.problem.dtype import round_to
from engine.schedule.bytes import Bytes
from engine.schedule.nest import Phase
from engine.schedule.step import BY_KEY, Operation, Tensor, load
from engine.trace.chip import Chip

LOG2_E = np.float32(np.log2(np.e))
GRADIENT = {Tensor.Q: Tensor.D_Q, Tensor.K: Tensor.D_K, Tensor.V: Tensor.D_V}


@dataclass(frozen=True)
class GradientTrace:
    """What the backward pass of one key head computed and moved, over the query heads that share it."""

    d_q: np.ndarray  # [heads, seq_q, d], rounded to the dtype, as d_k and d_v are
    # d_k, d_v: [seq_kv, d]
    d_k: np.ndarray
    d_v: np.ndarray
    delta: np.ndarray  # [heads, seq_q] float32, rowsum(dO o O)
    counted: Bytes  # bytes that the instrumented memory counted
    peak_sram_bytes: int  # the most that the tiles took at once


class Taken(NamedTuple):
    """One step: of which query head, what, and on which blocks (-1: none)."""

    head: int
    operation: int
    tensor: int
    query: int
    key: int


def execute_backward(experiment: Experiment, q, k, v, out, lse, d_out) -> GradientTrace:
    """Run the kernels of one key head; raises SramOverflow where a tile does not fit.

    q is [heads, seq_q, d], out and d_out [heads, seq_q, d of V], lse [heads, seq_q] natural, k [seq_kv, d]
    and v [seq_kv, d of V]: float32, and
    all but lse rounded to the problem's dtype. heads are the query heads that share the key head.
    """
    problem = experiment.problem
    group = problem.group
    rows, wide = ((group, problem.seq_q, dim) for dim in (problem.head_dim, problem.v_dim))
    keys, values = ((problem.seq_kv, dim) for dim in (problem.head_dim, problem.v_dim))
    shapes = {"q": rows, "k": keys, "v": values, "out": wide, "lse": rows[:2], "d_out": wide}
    for (name, shape), array in zip(shapes.items(), (q, k, v, out, lse, d_out), strict=True):
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")
    executor = BackwardExecutor(experiment, q, k, v, out, lse, d_out)
    for phase in range(len(executor.schedule.phases)):
        for step in executor.steps(phase):
            executor.take(phase, step)
    return executor.trace()


class BackwardExecutor(Chip):
    """The chip that the steps of the backward kernels run on."""

    def __init__(self, experiment: Experiment, q, k, v, out, lse, d_out):
        statistic = lse[..., None].astype(np.float32)
        arrays = {Tensor.Q: q, Tensor.K: k, Tensor.V: v, Tensor.O: out, Tensor.D_O: d_out}
        arrays[Tensor.LSE] = statistic
        like = {gradient: arrays[of] for of, gradient in GRADIENT.items()}
        like |= {Tensor.DELTA: statistic, Tensor.LSE_LOG2: statistic}
        arrays |= {tensor: np.zeros_like(array) for tensor, array in like.items()}
        super().__init__(launch(experiment), arrays)
        self.heads = len(q)

    def steps(self, index: int) -> Iterator[Taken]:
        """The steps of a kernel over all query heads, in the order of its programs."""
        columns = self.schedule.columns
        own = np.flatnonzero(columns.phase == index)
        names = (columns.operation, columns.tensor, columns.query_block, columns.key_block)
        steps = list(zip(*(column[own].tolist() for column in names), strict=True))
        phase: Phase = self.schedule.phases[index]
        if not phase.shared:
            yield from (Taken(head, *step) for head in range(self.heads) for step in steps)
            return
        for _, program in groupby(steps, key=lambda step: step[3]):
            program = list(program)
            before, after = len(phase.before), len(program) - len(phase.after)
            yield from (Taken(0, *step) for step in program[:before])
            for head in range(self.heads):
                yield from (Taken(head, *step) for step in program[before:after])
            yield from (Taken(0, *step) for step in program[after:])

    def take(self, phase: int, step: Taken) -> None:
        """One step of the schedule."""
        if phase != self.phase:
            self._begin(phase)
        tensor = Tensor(step.tensor)
        if step.operation == Operation.LOAD:
            self._load(tensor, step)
        elif step.operation == Operation.STORE:
            self._store(tensor, step)
        elif step.operation == Operation.SCORES:  # in units of log2, as lse is
            scores = self._masked_scores(step.query, step.key, np.float32(self.problem.scale) * LOG2_E)
            self._keep(Tensor.S, scores)
            if self.problem.softcap:
                self.falls = self._cap_falls()
        else:
            _COMPUTE[step.operation](self)

    def _where(self, tensor: Tensor, step: Taken) -> tuple:
        place = self._place(tensor, step.query, step.key)
        return place if tensor in BY_KEY else (step.head, *place)

    def _load(self, tensor: Tensor, step: Taken) -> None:
        tile = self.memory.load(tensor, self._where(tensor, step))
        self._keep(tensor, tile)
        if load(tensor) in self.kernel.before and tensor in GRADIENT:  # what stays gathers its own gradient
            self._keep(GRADIENT[tensor], np.zeros_like(tile))

    def _store(self, tensor: Tensor, step: Taken) -> None:
        scaled = tensor in (Tensor.D_K, Tensor.D_Q)  # S is scale Q K^T
        tile = self.tiles[tensor] * np.float32(self.problem.scale if scaled else 1)
        self.memory.store(tensor, self._where(tensor, step), tile)

    def _cap_falls(self) -> np.ndarray:
        """[rows, keys] what a capped score grows by where the score itself grows by 1."""
        plain = (self.tiles[Tensor.Q] @ self.tiles[Tensor.K].T) * np.float32(self.problem.scale)
        return 1 - np.tanh(plain / np.float32(self.problem.softcap)) ** 2

    def _row_terms(self) -> None:
        """delta, and lse in units of log2: 0 for rows that see no key, so that their P is 0 and not NaN."""
        lse = self.tiles[Tensor.LSE]
        self._keep(Tensor.DELTA, (self.tiles[Tensor.D_O] * self.tiles[Tensor.O]).sum(1, keepdims=True))
        self.tiles[Tensor.LSE_LOG2] = np.where(np.isneginf(lse), np.float32(0), lse) * LOG2_E

    def _weights(self) -> None:
        """P in the place of S."""
        self.tiles[Tensor.S] = np.exp2(self.tiles[Tensor.S] - self.tiles[Tensor.LSE_LOG2])

    def _value_gradient(self) -> None:
        weights = round_to(self.tiles[Tensor.S], self.problem.dtype)
        self.tiles[Tensor.D_V] = self.tiles[Tensor.D_V] + weights.T @ self.tiles[Tensor.D_O]

    def _weight_gradient(self) -> None:
        self._keep(Tensor.D_P, self.tiles[Tensor.D_O] @ self.tiles[Tensor.V].T)

    def _score_gradient(self) -> None:
        """dS in the place of dP, rounded for the products to come."""
        d_scores = self.tiles[Tensor.S] * (self.tiles[Tensor.D_P] - self.tiles[Tensor.DELTA])
        if self.problem.softcap:
            d_scores = d_scores * self.falls
        self.tiles[Tensor.D_P] = round_to(d_scores, self.problem.dtype)

    def _key_gradient(self) -> None:
        self.tiles[Tensor.D_K] = self.tiles[Tensor.D_K] + self.tiles[Tensor.D_P].T @ self.tiles[Tensor.Q]

    def _query_gradient(self) -> None:
        self.tiles[Tensor.D_Q] = self.tiles[Tensor.D_Q] + self.tiles[Tensor.D_P] @ self.tiles[Tensor.K]

    def trace(self) -> GradientTrace:
        """What has been computed and counted."""
        memory, arrays = self.memory, self.memory.arrays
        gradients = (arrays[tensor] for tensor in (Tensor.D_Q, Tensor.D_K, Tensor.D_V))
        return GradientTrace(*gradients, arrays[Tensor.DELTA][..., 0], memory.counted(), memory.peak)


_COMPUTE = {
    Operation.ROW_TERMS: BackwardExecutor._row_terms,
    Operation.WEIGHTS: BackwardExecutor._weights,
    Operation.VALUE_GRADIENT: BackwardExecutor._value_gradient,
    Operation.WEIGHT_GRADIENT: BackwardExecutor._weight_gradient,
    Operation.SCORE_GRADIENT: BackwardExecutor._score_gradient,
    Operation.KEY_GRADIENT: BackwardExecutor._key_gradient,
    Operation.QUERY_GRADIENT: BackwardExecutor._query_gradient,
}
