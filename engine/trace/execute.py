"""A schedule run on numbers: every load and store through a memory that counts, every tile within the SRAM.

The arithmetic is the kernels': inputs and stored tensors in their dtype, scores and sums in float32; P and dS
are rounded to the dtype before they are multiplied.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from engine.experiment import Experiment
from engine.model.launch import Launch, launch
from engine.problem.bounds import visible
from engine.problem.dtype import round_to
from engine.problem.terms import before_keys, with_terms
from engine.schedule.bytes import Bytes
from engine.schedule.step import BY_KEY, BY_V_DIM, INPUTS, PARTIALS, Operation, Tensor
from engine.trace.dense import Held
from engine.trace.memory import Memory
from engine.trace.softmax import LOG2_E, exponentials, falling, log_sum_exp, raised

NOTHING = np.float32(-np.inf)
STATISTICS = (Tensor.STATISTICS, Tensor.LSE, Tensor.PARTIAL_LSE, Tensor.DELTA, Tensor.LSE_LOG2)
ALWAYS_FLOAT32 = (*STATISTICS, Tensor.PARTIAL)  # in any dtype
GRADIENT = {Tensor.Q: Tensor.D_Q, Tensor.K: Tensor.D_K, Tensor.V: Tensor.D_V}
GIVEN = {"q": Tensor.Q, "k": Tensor.K, "v": Tensor.V, "out": Tensor.O, "lse": Tensor.LSE, "d_out": Tensor.D_O}


@dataclass(frozen=True)
class Trace(Held):
    """What one head's schedule computed and moved: O rounded to the dtype, lse, m, l and alpha in float32.

    >>> from engine.problem.inputs import make_inputs
    >>> one = Experiment.of(seq=128, heads=1)
    >>> execute(one, *(array[0] for array in make_inputs(one.problem))).m.shape
    (2, 2, 64)
    """

    counted: Bytes  # what the memory counted
    peak_sram_bytes: int  # the most that the tiles took at once
    # [splits, seq_q, d] float32 O of each split, normalised over its own keys, and [splits, seq_q] its lse;
    # 0 and -inf where it has none. Of keys that are not split, the whole
    parts: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class GradientTrace:
    """What the backward pass of one key head computed and moved, over the query heads that share it."""

    d_q: np.ndarray  # [heads, seq_q, d], rounded to the dtype, as d_k and d_v are
    d_k: np.ndarray  # [seq_kv, d]
    d_v: np.ndarray  # [seq_kv, d of V]
    counted: Bytes
    peak_sram_bytes: int


def execute(experiment: Experiment, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Trace:
    """Run one head, step by step in the schedule's order; raises SramOverflow where a tile does not fit.

    q is [seq_q, d], k [seq_kv, d] and v [seq_kv, d of V], float32 and already rounded to the problem's dtype.
    Of split keys it is a key head, and q has the rows of all query heads that share it: row r is query
    r // group of head r % group.
    """
    return Executor(launch(experiment), q, k, v).run()


def execute_backward(experiment: Experiment, q, k, v, out, lse, d_out) -> GradientTrace:
    """Run the kernels of one key head; raises SramOverflow where a tile does not fit.

    q is [heads, seq_q, d], out and d_out [heads, seq_q, d of V], lse [heads, seq_q] natural, k [seq_kv, d]
    and v [seq_kv, d of V]: float32, and all but lse rounded to the problem's dtype. heads are the query heads
    that share the key head.
    """
    executor = Executor(launch(experiment), q, k, v, out, lse, d_out, heads=experiment.problem.group)
    executor.walk()
    arrays, memory = executor.memory.arrays, executor.memory
    gradients = (arrays[tensor] for tensor in GRADIENT.values())
    return GradientTrace(*gradients, memory.counted(), memory.peak)


class Executor:
    """The chip that steps run on: its tiles by tensor, the memory behind it, and what it writes down."""

    def __init__(self, run: Launch, *given: np.ndarray, heads: int = 0):
        problem, tensors = run.schedule.problem, run.algorithm.tensors
        self.launch, self.problem, self.schedule = run, problem, run.schedule
        self.heads, self.unfused = max(heads, 1), run.algorithm.unfused
        self.phase, self.split, self.head, self.query, self.key, self.block = -1, 0, 0, -1, -1, -1
        self.tiles: dict[Tensor, np.ndarray] = {}
        arrays = {tensor: np.zeros(self._shape(tensor), np.float32) for tensor in tensors}
        arrays |= {tensor: each + NOTHING for tensor, each in arrays.items() if "LSE" in tensor.name}
        if Tensor.STATISTICS in arrays:
            arrays[Tensor.STATISTICS][:] = before_keys(problem)
        for (name, tensor), array in zip(GIVEN.items(), given, strict=False):
            whole = arrays[tensor].shape
            shape = whole if heads or tensor in BY_KEY else whole[1:]
            shape = shape[:-1] if tensor == Tensor.LSE else shape
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")
            arrays[tensor] = np.asarray(array, np.float32).reshape(whole)
        dtypes = {each: problem.dtype if each in INPUTS else problem.stored for each in tensors}
        dtypes |= dict.fromkeys(ALWAYS_FLOAT32, "float32")
        self.memory = Memory(arrays, dtypes, run.gpu.shared_bytes_block, run.gpu.with_article)
        shape = len(run.schedule.query_rows), len(run.schedule.key_rows), run.tiling.block_q
        shape = (shape[0], 1, shape[2]) if self.unfused else shape
        self.visits = {name: np.full(shape, np.nan, np.float32) for name in ("m", "l", "alpha")}

    def run(self) -> Trace:
        self.walk()
        memory, arrays = self.memory, self.memory.arrays
        if memory.written[Tensor.STATISTICS]:
            lse = log_sum_exp(*arrays[Tensor.STATISTICS][0].T)
        else:
            lse = arrays[Tensor.LSE][0, :, 0]
        parts = arrays[Tensor.O], lse[None]
        if memory.written[Tensor.PARTIAL]:
            parts = arrays[Tensor.PARTIAL], arrays[Tensor.PARTIAL_LSE][..., 0]
        return Trace(arrays[Tensor.O][0], lse, *self.visits.values(), memory.counted(), memory.peak, parts)

    def walk(self) -> None:
        for phase in range(len(self.schedule.phases)):
            for head, step in self._steps(phase):
                self.head = head
                self.take(phase, *step)

    def _steps(self, index: int) -> Iterator[tuple[int, tuple[int, int, int, int]]]:
        """The steps of a kernel over all query heads, in the order of its programs."""
        columns, phase = self.schedule.columns, self.schedule.phases[index]
        own = columns.phase == index
        named = (columns.operation, columns.tensor, columns.query_block, columns.key_block)
        steps = list(zip(*(column[own].tolist() for column in named), strict=True))
        if self.heads == 1 or not phase.shared:
            yield from ((head, step) for head in range(self.heads) for step in steps)
            return
        for _, program in groupby(steps, key=lambda step: step[3]):  # what is gathered over heads stays
            program = list(program)
            middle = slice(len(phase.before), len(program) - len(phase.after))
            yield from ((0, step) for step in program[: middle.start])
            yield from ((head, step) for head in range(self.heads) for step in program[middle])
            yield from ((0, step) for step in program[middle.stop :])

    def take(self, phase: int, operation: int, tensor: int, query: int, key: int) -> None:
        if phase != self.phase:
            self.phase, self.kernel = phase, self.schedule.phases[phase]
            self.sizes = {part.tensor: part.bytes for part in self.launch.parts[self.kernel.name]}
            self.boxed = {step.tensor for step in self.kernel.before + self.kernel.each if step.boxed}
            self.staying = {step.tensor for step in self.kernel.before}
            self.leaving = {step.tensor for step in self.kernel.after}
            self.memory.held.clear()
            self.tiles.clear()
        self.query, self.key = query, key
        if operation == Operation.LOAD:
            self._load(Tensor(tensor))
        elif operation == Operation.STORE:
            self._store(Tensor(tensor))
        else:
            COMPUTE[operation](self)

    def _shape(self, tensor: Tensor) -> tuple[int, ...]:
        problem, first = self.problem, self.heads
        wide = problem.v_dim if tensor in (*BY_V_DIM, Tensor.PARTIAL) else problem.head_dim
        if tensor in BY_KEY:
            return problem.seq_kv, wide
        if tensor in PARTIALS:
            first = self.schedule.phases[0].splits
        if tensor in STATISTICS:
            wide = 1 + (tensor == Tensor.STATISTICS)
        return first, problem.seq_q, problem.seq_kv if tensor in (Tensor.S, Tensor.P) else wide

    def _place(self, tensor: Tensor) -> tuple:
        if tensor in BY_KEY:
            return (self._keys(),)
        first = self.head
        if tensor in PARTIALS:
            first = slice(None) if self.kernel.name == "combine" else self.split
        return (first, self._rows(), *[self._keys()] * (tensor in (Tensor.S, Tensor.P)))

    def _rows(self) -> slice:
        block = self.schedule.tiling.block_q
        return slice(self.query * block, min((self.query + 1) * block, self.problem.seq_q))

    def _keys(self) -> slice:
        every, key = self.problem.seq_kv, max(self.key, 0)
        block = every if self.key < 0 else self.schedule.tiling.block_kv
        return slice(key * block, min((key + 1) * block, every))

    def _keep(self, tensor: Tensor, tile: np.ndarray) -> None:
        """Hold a tile on the chip, in its kernel's share of the SRAM; what registers hold takes none."""
        self.memory.hold(tensor, self.sizes.get(tensor, 0))
        self.tiles[tensor] = tile

    def _load(self, tensor: Tensor) -> None:
        block = self.schedule.tiling.block_kv if tensor in BY_KEY else self.schedule.tiling.block_q
        boxes = self.kernel.boxes_at(self.query, self.key) if tensor in self.boxed else 0
        tile = self.memory.load(tensor, self._place(tensor), block * boxes if tensor in self.boxed else None)
        if tensor == Tensor.STATISTICS:  # O lies in memory divided by l
            self.tiles[Tensor.O] = self.tiles[Tensor.O] * tile[:, 1:]
        self._keep(tensor, tile)
        if tensor == Tensor.K and self.problem.latent:
            self.tiles[Tensor.V] = tile[:, : self.problem.v_dim]
        if tensor not in self.staying:
            return
        # what stays has sums that begin
        if GRADIENT.get(tensor) in self.leaving:
            self._keep(GRADIENT[tensor], np.zeros_like(tile))
        elif tensor == Tensor.Q and self.leaving & {Tensor.O, Tensor.PARTIAL}:
            self.split = (
                self.split + 1 if self.query == self.block else 0
            )  # a program of the same rows, or of others
            self.block = self.query
            self._keep(Tensor.O, np.zeros((len(tile), self.problem.v_dim), np.float32))
            self._keep(Tensor.STATISTICS, self._before_keys(len(tile)))

    def _before_keys(self, rows: int) -> np.ndarray:
        """[rows, 2] m and l of rows that have seen no key; a sink is the first split's alone."""
        first = (NOTHING, 0) if self.split else before_keys(self.problem)
        return np.tile(np.array(first, np.float32), (rows, 1))

    def _store(self, tensor: Tensor) -> None:
        """What is stored of a tensor: O is divided by l last, and S is scale Q K^T."""
        found = self.tiles.get(tensor)
        if tensor in (Tensor.D_K, Tensor.D_Q):
            found = found * np.float32(self.problem.scale)
        elif tensor in (Tensor.LSE, Tensor.PARTIAL_LSE):
            found = log_sum_exp(*self.tiles[Tensor.STATISTICS].T)[:, None]
        elif tensor in (Tensor.O, Tensor.PARTIAL) and not self.unfused:
            found = self.tiles[Tensor.O] / _but_for_0(self.tiles[Tensor.STATISTICS][:, 1:])
        self.memory.store(tensor, self._place(tensor), found)
        if self.unfused and tensor == Tensor.O:
            del self.tiles[Tensor.O]

    def _scores(self) -> None:
        """S = scale Q K^T with its terms, in units of log2 where lse is; -inf where masked."""
        rows, keys = (np.arange(place.start, place.stop) for place in (self._rows(), self._keys()))
        plain = self.tiles[Tensor.Q] @ self.tiles[Tensor.K].T
        back = Tensor.LSE_LOG2 in self.tiles
        scale = np.float32(self.problem.scale) * (LOG2_E if back else 1)
        products = plain * scale
        if self.problem.terms:  # of scores in natural units
            unit = np.float32(scale / self.problem.scale)
            products = with_terms(self.problem, products / unit, rows, keys) * unit
        self._keep(Tensor.S, np.where(visible(self.problem, rows, keys), products, NOTHING))
        if back and self.problem.softcap:  # what a capped score grows by where the score itself grows by 1
            natural = plain * np.float32(self.problem.scale)
            self.falls = 1 - np.tanh(natural / np.float32(self.problem.softcap)) ** 2

    def _maximum(self) -> None:
        self.old_m = self.tiles[Tensor.STATISTICS][:, 0]
        statistics = self.tiles[Tensor.STATISTICS].copy()
        statistics[:, 0] = raised(self.old_m, self.tiles[Tensor.S].max(1), self.launch.pipeline.threshold)
        self.tiles[Tensor.STATISTICS] = statistics

    def _rescale(self) -> None:
        """alpha = exp(m_old - m), and P in the place of S."""
        m = self.tiles[Tensor.STATISTICS][:, 0]
        self.alpha = falling(self.old_m, m)
        self.tiles[Tensor.S] = exponentials(self.tiles[Tensor.S], m[:, None], self.launch.pipeline)

    def _accumulate(self) -> None:
        """O = alpha O + P V, and l = alpha l + rowsum P before P is rounded; unfused, O = O + P V."""
        if self.unfused:
            if Tensor.O not in self.tiles:
                self._keep(Tensor.O, np.zeros((len(self.tiles[Tensor.P]), self.problem.v_dim), np.float32))
            self.tiles[Tensor.O] = self.tiles[Tensor.O] + self.tiles[Tensor.P] @ self.tiles[Tensor.V]
            return
        p, statistics = self.tiles[Tensor.S], self.tiles[Tensor.STATISTICS]
        statistics[:, 1] = self.alpha * statistics[:, 1] + p.sum(1)
        rounded = round_to(p, self.problem.dtype)
        self.tiles[Tensor.O] = self.tiles[Tensor.O] * self.alpha[:, None] + rounded @ self.tiles[Tensor.V]
        self._note(self.key, *statistics.T, self.alpha)

    def _softmax(self) -> None:
        """P of whole rows, one after another, so that one row is on the chip."""
        scores = self.tiles[Tensor.S]
        first, more = self._before_keys(len(scores)).T
        m = np.maximum(first, scores.max(1))
        weights = falling(scores, m[:, None])
        total = weights.sum(1) + more * falling(first, m)
        self.tiles[Tensor.P] = weights / _but_for_0(total)[:, None]
        self._note(0, m, total, np.float32(np.nan))
        self.memory.arrays[Tensor.LSE][0, self._rows(), 0] = log_sum_exp(m, total)

    def _note(self, key: int, *found: np.ndarray) -> None:
        for name, values in zip(self.visits, found, strict=True):
            self.visits[name][self.query, key, : len(found[0])] = values

    def _combine(self) -> None:
        """The sum of exp(lse_i - m) O_i and of the weights, m the largest lse; storing O divides them."""
        lse = self.tiles[Tensor.PARTIAL_LSE][..., 0]
        m = lse.max(0)
        weights = falling(lse, m)
        self._keep(Tensor.O, (weights[..., None] * self.tiles[Tensor.PARTIAL]).sum(0))
        self._keep(Tensor.STATISTICS, np.stack([m, weights.sum(0)], 1))

    def _row_terms(self) -> None:
        """delta, and lse in units of log2: 0 for rows that see no key, so that their P is 0 and not NaN."""
        lse = self.tiles[Tensor.LSE]
        self._keep(Tensor.DELTA, (self.tiles[Tensor.D_O] * self.tiles[Tensor.O]).sum(1, keepdims=True))
        self.tiles[Tensor.LSE_LOG2] = np.where(np.isneginf(lse), np.float32(0), lse) * LOG2_E

    def _weights(self) -> None:
        self.tiles[Tensor.S] = np.exp2(self.tiles[Tensor.S] - self.tiles[Tensor.LSE_LOG2])

    def _weight_gradient(self) -> None:
        self._keep(Tensor.D_P, self.tiles[Tensor.D_O] @ self.tiles[Tensor.V].T)

    def _score_gradient(self) -> None:
        """dS in the place of dP, rounded for the products to come."""
        d_scores = self.tiles[Tensor.S] * (self.tiles[Tensor.D_P] - self.tiles[Tensor.DELTA])
        d_scores = d_scores * self.falls if self.problem.softcap else d_scores
        self.tiles[Tensor.D_P] = round_to(d_scores, self.problem.dtype)

    def _value_gradient(self) -> None:
        self.tiles[Tensor.D_V] += (
            round_to(self.tiles[Tensor.S], self.problem.dtype).T @ self.tiles[Tensor.D_O]
        )

    def _key_gradient(self) -> None:
        self.tiles[Tensor.D_K] += self.tiles[Tensor.D_P].T @ self.tiles[Tensor.Q]

    def _query_gradient(self) -> None:
        self.tiles[Tensor.D_Q] += self.tiles[Tensor.D_P] @ self.tiles[Tensor.K]


def _but_for_0(total: np.ndarray) -> np.ndarray:
    """What to divide by: l, and 1 where no key was seen."""
    return np.where(total == 0, np.float32(1), total)


COMPUTE: Mapping[int, Callable[[Executor], None]] = {
    operation: getattr(Executor, f"_{operation.name.lower()}") for operation in Operation
}
