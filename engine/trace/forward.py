"""A schedule run on numbers: every load and store through an instrumented memory, every tile within the SRAM.

The arithmetic is the kernels': inputs and stored tensors in their dtype, scores and sums in float32, P
rounded to the dtype before P V.
"""

from dataclasses import dataclass

import numpy as np

from engine.experiment import Experiment
from engine.model.launch import Launch, launch
from engine.problem.dtype import round_to
from engine.schedule.bytes import Bytes
from engine.schedule.step import BY_KEY, Operation, Tensor
from engine.trace.chip import NOTHING, Chip, SramOverflow
from engine.trace.rows import RowStatistics, row_statistics
from engine.trace.softmax import exponentials, falling, log_sum_exp, raised

__all__ = ["RowStatistics", "SramOverflow", "Trace", "execute", "row_statistics"]


@dataclass(frozen=True)
class Trace:
    """What one head's schedule computed and moved.

    >>> from engine.problem.inputs import make_inputs
    >>> one = Experiment.of(seq=128, heads=1)
    >>> execute(one, *(array[0] for array in make_inputs(one.problem))).m.shape
    (2, 2, 64)
    """

    out: np.ndarray  # [seq_q, d] O, rounded to the dtype; 0 where a row sees no key
    lse: np.ndarray  # [seq_q] float32, natural; -inf where a row sees no key
    # m, l, alpha: [query blocks, key blocks, block_q] float32 after every visit, NaN where there is none.
    # Unfused attention has one key block, the whole row, and no alpha
    m: np.ndarray
    l: np.ndarray  # noqa: E741 - the field's name
    alpha: np.ndarray
    counted: Bytes  # bytes that the instrumented memory counted
    peak_sram_bytes: int  # the most that the tiles took at once


def execute(experiment: Experiment, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Trace:
    """Run one head, step by step in the schedule's order; raises SramOverflow where a tile does not fit.

    q is [seq_q, d], k [seq_kv, d] and v [seq_kv, d of V], float32 and already rounded to the problem's dtype.
    """
    return Executor(launch(experiment), q, k, v).run()


class Executor(Chip):
    """The chip that the steps of a forward pass run on, and what it writes down."""

    def __init__(self, run: Launch, q, k, v, more=None):
        schedule, problem = run.schedule, run.schedule.problem
        shapes = {"q": (q, problem.seq_q), "k": (k, problem.seq_kv), "v": (v, problem.seq_kv)}
        for name, (array, rows) in shapes.items():
            shape = rows, problem.v_dim if name == "v" else problem.head_dim
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")
        self.unfused, self.pipeline = run.algorithm.unfused, run.pipeline
        arrays = {Tensor.Q: q, Tensor.K: k, Tensor.V: v}
        arrays[Tensor.O] = np.zeros((problem.seq_q, problem.v_dim), np.float32)
        self.problem = problem
        # columns m and l; float32 in memory whatever the dtype of the tensors
        arrays[Tensor.STATISTICS] = self._before_keys(problem.seq_q)
        arrays[Tensor.LSE] = np.full((problem.seq_q, 1), NOTHING)
        if self.unfused:
            arrays[Tensor.S] = np.zeros((problem.seq_q, problem.seq_kv), np.float32)
            arrays[Tensor.P] = np.zeros((problem.seq_q, problem.seq_kv), np.float32)
        super().__init__(run, {**arrays, **(more or {})})
        self.alpha = self.old_m = None
        shape = (
            len(schedule.query_rows),
            1 if self.unfused else len(schedule.key_rows),
            schedule.tiling.block_q,
        )
        self.visits = {name: np.full(shape, np.nan, np.float32) for name in ("m", "l", "alpha")}

    def run(self) -> Trace:
        """Every step of the schedule, in order."""
        columns = self.schedule.columns
        steps = (columns.phase, columns.operation, columns.tensor, columns.query_block, columns.key_block)
        for step in zip(*(column.tolist() for column in steps), strict=True):
            self.take(*step)
        return self.trace()

    def take(self, phase: int, operation: int, tensor: int, query: int, key: int) -> None:
        """One step of the schedule."""
        if phase != self.phase:
            self._begin(phase)
        # between memory and the chip
        tensor = Tensor(tensor)
        if operation == Operation.LOAD:
            self._load(tensor, query, key)
        elif operation == Operation.STORE:
            self._store(tensor, query, key)
        # on the chip
        elif operation == Operation.SCORES:
            self._keep(Tensor.S, self._masked_scores(query, key, self.problem.scale))
        elif operation == Operation.MAXIMUM:
            self._maximum()
        elif operation == Operation.RESCALE:
            self._rescale()
        elif operation == Operation.ACCUMULATE:
            self._accumulate(query, key)
        else:
            self._softmax(query)

    def _load(self, tensor: Tensor, query: int, key: int) -> None:
        boxed = any(step.boxed for step in self.kernel.before + self.kernel.each if step.tensor == tensor)
        block = self.schedule.tiling.block_kv if tensor in BY_KEY else self.schedule.tiling.block_q
        rows = block * self.kernel.boxes_at(query, key) if boxed else None
        tile = self.memory.load(tensor, self._place(tensor, query, key), rows)
        if tensor == Tensor.STATISTICS:  # O lies in memory divided by l
            self.tiles[Tensor.O] = self.tiles[Tensor.O] * tile[:, 1:]
        self._keep(tensor, tile)
        if tensor == Tensor.K and self.problem.latent:
            self.tiles[Tensor.V] = tile[:, : self.problem.v_dim]
        if tensor == Tensor.Q and any(step.tensor == Tensor.Q for step in self.kernel.before):
            self._keep(Tensor.O, np.zeros((len(tile), self.problem.v_dim), np.float32))
            self._keep(Tensor.STATISTICS, self._before_keys(len(tile)))

    def _store(self, tensor: Tensor, query: int, key: int) -> None:
        self.memory.store(tensor, self._place(tensor, query, key), self._result(tensor))
        if self.unfused and tensor == Tensor.O:
            del self.tiles[Tensor.O]

    def _result(self, tensor: Tensor) -> np.ndarray:
        """What is stored of a tensor; O is divided by l last."""
        if tensor == Tensor.LSE:
            return log_sum_exp(*self.tiles[Tensor.STATISTICS].T)[:, None]
        if tensor == Tensor.O and not self.unfused:
            total = self.tiles[Tensor.STATISTICS][:, 1:]
            return self.tiles[Tensor.O] / np.where(total == 0, np.float32(1), total)
        return self.tiles[tensor]

    def _maximum(self) -> None:
        self.old_m = self.tiles[Tensor.STATISTICS][:, 0]
        statistics = self.tiles[Tensor.STATISTICS].copy()
        largest = self.tiles[Tensor.S].max(1)
        statistics[:, 0] = raised(self.old_m, largest, self.pipeline.threshold)
        self.tiles[Tensor.STATISTICS] = statistics

    def _rescale(self) -> None:
        """alpha = exp(m_old - m), and P in the place of S."""
        m = self.tiles[Tensor.STATISTICS][:, 0]
        self.alpha = falling(self.old_m, m)
        self.tiles[Tensor.S] = exponentials(self.tiles[Tensor.S], m[:, None], self.pipeline)

    def _accumulate(self, query: int, key: int) -> None:
        if self.unfused:
            if Tensor.O not in self.tiles:
                self._keep(Tensor.O, np.zeros((len(self.tiles[Tensor.P]), self.problem.v_dim), np.float32))
            self.tiles[Tensor.O] = self.tiles[Tensor.O] + self.tiles[Tensor.P] @ self.tiles[Tensor.V]
            return
        p, statistics = self.tiles[Tensor.S], self.tiles[Tensor.STATISTICS]
        statistics[:, 1] = self.alpha * statistics[:, 1] + p.sum(1)
        rounded = round_to(p, self.problem.dtype)
        self.tiles[Tensor.O] = self.tiles[Tensor.O] * self.alpha[:, None] + rounded @ self.tiles[Tensor.V]
        self._note(query, key, statistics, self.alpha)

    def _softmax(self, query: int) -> None:
        """P of whole rows, one after another, so that one row is on the chip."""
        scores = self.tiles[Tensor.S]
        first, more = self._before_keys(len(scores)).T
        m = np.maximum(first, scores.max(1))
        exponentials = falling(scores, m[:, None])
        total = exponentials.sum(1) + more * falling(first, m)
        self.tiles[Tensor.P] = exponentials / np.where(total == 0, np.float32(1), total)[:, None]
        self._note(query, 0, np.stack([m, total], 1), np.float32(np.nan))
        self.memory.arrays[Tensor.LSE][self._rows(query), 0] = log_sum_exp(m, total)

    def _note(self, query: int, key: int, statistics: np.ndarray, alpha) -> None:
        """Write down m, l and alpha of a visit."""
        rows = len(statistics)
        self.visits["m"][query, key, :rows] = statistics[:, 0]
        self.visits["l"][query, key, :rows] = statistics[:, 1]
        self.visits["alpha"][query, key, :rows] = alpha

    def trace(self) -> Trace:
        """What has been computed and counted."""
        memory = self.memory
        lse = memory.arrays[Tensor.LSE][:, 0]
        if memory.written[Tensor.STATISTICS]:
            lse = log_sum_exp(*memory.arrays[Tensor.STATISTICS].T)
        return Trace(
            memory.arrays[Tensor.O], lse, **self.visits, counted=memory.counted(), peak_sram_bytes=memory.peak
        )
