"""The split schedule run on numbers, as `forward` runs a whole one: the parts and their merge."""

from dataclasses import dataclass

import numpy as np

from engine.experiment import Experiment
from engine.model.launch import Launch, launch
from engine.schedule.step import PARTIALS, Operation, Tensor
from engine.trace.chip import NOTHING
from engine.trace.forward import Executor, Trace
from engine.trace.softmax import falling


@dataclass(frozen=True)
class SplitTrace:
    """What one key head's programs computed and moved; rows are packed, see `engine.algorithms.split_kv`."""

    # of the whole: O and lse as combined, m, l and alpha after every visit of the row's own split
    trace: Trace
    # [splits, rows, d] float32 O of each split, normalised over its own keys; 0 where it has none
    out: np.ndarray
    lse: np.ndarray  # [splits, rows] float32, natural; -inf where it has none


def execute_split(experiment: Experiment, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> SplitTrace:
    """Run one key head; raises SramOverflow where a tile does not fit.

    q is [heads / kv_heads * seq_q, d], row r query r // group of head r % group; k and v are [seq_kv, d]:
    float32 and already rounded to the problem's dtype.
    """
    executor = SplitExecutor(launch(experiment), q, k, v)
    trace, arrays = executor.run(), executor.memory.arrays
    if not executor.memory.written[Tensor.PARTIAL]:  # one split alone
        return SplitTrace(trace, trace.out[None], trace.lse[None])
    return SplitTrace(trace, arrays[Tensor.PARTIAL], arrays[Tensor.PARTIAL_LSE][..., 0])


class SplitExecutor(Executor):
    """The chip that the programs of splits run on, one after another, and those that combine them."""

    def __init__(self, run: Launch, q, k, v):
        splits = run.schedule.phases[0].splits
        partials = {
            Tensor.PARTIAL: np.zeros((splits, len(q), v.shape[1]), np.float32),
            Tensor.PARTIAL_LSE: np.full((splits, len(q), 1), NOTHING),
        }
        super().__init__(run, q, k, v, partials)
        self.block, self.split = -1, 0

    def take(self, phase: int, operation: int, tensor: int, query: int, key: int) -> None:
        """One step of the schedule."""
        if operation == Operation.COMBINE:
            self._combine()
        else:
            super().take(phase, operation, tensor, query, key)

    def _load(self, tensor: Tensor, query: int, key: int) -> None:
        if tensor == Tensor.Q:  # a program starts: the block's next split, or the first of the next block
            self.split = self.split + 1 if query == self.block else 0
            self.block = query
        super()._load(tensor, query, key)

    def _before_keys(self, rows: int) -> np.ndarray:
        """A sink is the first split's alone."""
        found = super()._before_keys(rows)
        if getattr(self, "split", 0):
            found[:] = NOTHING, 0
        return found

    def _place(self, tensor: Tensor, query: int, key: int) -> tuple:
        if tensor not in PARTIALS:
            return super()._place(tensor, query, key)
        return slice(None) if self.kernel.name == "combine" else self.split, self._rows(query)

    def _result(self, tensor: Tensor) -> np.ndarray:
        whole = {Tensor.PARTIAL: Tensor.O, Tensor.PARTIAL_LSE: Tensor.LSE}
        return super()._result(whole.get(tensor, tensor))

    def _combine(self) -> None:
        """The sum of exp(lse_i - m) O_i and of the weights, m the largest lse; storing O divides them."""
        lse = self.tiles[Tensor.PARTIAL_LSE][..., 0]
        m = lse.max(0)
        weights = falling(lse, m)
        self._keep(Tensor.O, (weights[..., None] * self.tiles[Tensor.PARTIAL]).sum(0))
        self._keep(Tensor.STATISTICS, np.stack([m, weights.sum(0)], 1))
