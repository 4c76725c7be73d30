"""Decoding: one query against a long cache, in pages too: splits of its keys, and how their parts merge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count
from math import prod

import numpy as np

from engine.algorithms.split_kv import ALGORITHM, own_blocks, own_splits
from engine.experiment import Experiment
from engine.model.simulation import Simulation, simulate
from engine.problem.bounds import visible_keys
from engine.problem.inputs import make_inputs
from engine.problem.problem import Problem
from engine.recordings.nearest import WIDTH, doublings, length, nearest, sharing_heads
from engine.recordings.recording import Recording
from engine.recordings.timing import Decoding
from engine.schedule.step import Tensor
from engine.studies.drawable import drawable
from engine.trace.dense import exact_tiles
from engine.trace.execute import execute
from engine.trace.softmax import OnlineSteps, log_sum_exp, online_steps
from kernels.tilings.device import MIN_BLOCK

SPLITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CACHES = tuple(2**power for power in range(10, 21))  # keys of a cache: 1,024 to 1,048,576
MOST_BLOCKS, MOST_VALUES = 64, 2**20  # key blocks, and values of K, of what is run for its numbers


def decoding_of(experiment: Experiment) -> Experiment:
    """The next token of a scenario: one query per head against its keys, split as often as `splits` says."""
    rows, _ = own_blocks(experiment.problem, experiment.gpu)
    return experiment.changed(algorithm=ALGORITHM.key, seq=1, block_q=rows)


def kernel_splits(decoding: Experiment) -> int:
    return own_splits(decoding.problem, decoding.tiling, decoding.gpu.sms)


@lru_cache(maxsize=64)
def by_splits(decoding: Experiment) -> dict[int, Simulation]:
    """The same decoding with its keys split more and more often, the kernel's own choice among them."""
    counts = sorted({*SPLITS, kernel_splits(decoding), decoding.tiling.splits})
    return {splits: simulate(decoding.changed(splits=splits)) for splits in counts}


def fastest(found: Mapping[int, Simulation]) -> int:
    """The number of splits that takes the least modelled time, the fewest of several."""
    return min(found, key=lambda splits: found[splits].modelled.seconds)


@dataclass(frozen=True)
class Spread:
    """A kernel's blocks over the SMs, modelled: they take as long as each other and go round."""

    blocks: np.ndarray  # [SMs] blocks that each SM runs, one after another or side by side
    # key heads over the batch, splits of each, blocks of its query heads; multiplied they are the blocks
    # launched, with those for which no keys are left
    grid: tuple[int, int, int]

    @property
    def launched(self) -> int:
        return prod(self.grid)

    @property
    def busy(self) -> int:
        return int((self.blocks > 0).sum())


def spread(simulation: Simulation) -> Spread:
    """The blocks of an experiment's first kernel that have keys to read."""
    phase, sms = simulation.schedule.phases[0], simulation.experiment.gpu.sms
    heads, splits = simulation.traffic.heads, simulation.experiment.tiling.splits
    count = phase.programs.filled * heads
    blocks = count // sms + (np.arange(sms) < count % sms)
    return Spread(blocks, (heads, splits, phase.programs.outer_blocks))


def key_reads(simulation: Simulation) -> int:
    """Bytes of K and V that must be read for one token, all heads."""
    return sum(simulation.traffic.compulsory.read[tensor] for tensor in (Tensor.K, Tensor.V))


def keys_seen(decoding: Experiment) -> int:
    """Keys that the one query of each head sees."""
    (low,), (high,) = visible_keys(decoding.problem, np.zeros(1, np.int64))
    return int(high - low)


def rate(simulation: Simulation) -> float:
    """Bytes of K and V per second, in the modelled time: what recordings of decoding count."""
    return key_reads(simulation) / simulation.modelled.seconds


def seconds_at(simulation: Simulation, rate: float) -> float:
    """Seconds that K and V take at so many bytes per second."""
    return key_reads(simulation) / rate


@dataclass(frozen=True)
class Parts:
    """What the splits of one query hold, executed through the counting memory, and how they merge."""

    experiment: Experiment  # what was run: one head, as many keys as are quickly computed
    keys: np.ndarray  # [splits, 2] first and one past the last key of each split; equal where it has none
    # m, l, lse: [splits] maximum, sum of exp(score - m) and log-sum-exp of each; -inf, 0 and -inf for none
    m: np.ndarray
    l: np.ndarray  # noqa: E741 - the field's name
    lse: np.ndarray
    out: np.ndarray  # [splits, d] O of each, divided by its own l; 0 for none
    # the online softmax over lse: what m, l and alpha do as one part after another is merged
    steps: OnlineSteps
    # [splits + 1, 3 + d] after each number of parts, from none: the largest lse, the sum of exp(lse -
    # largest), lse and O
    merged: np.ndarray
    result: np.ndarray  # [d] the kernel's O, rounded to the dtype
    exact: np.ndarray  # [d] O in float64 over all keys at once; exact_lse likewise
    exact_lse: float

    @property
    def error(self) -> float:
        return float(np.abs(self.result - self.exact).max())


@lru_cache(maxsize=32)
def parts_of(decoding: Experiment) -> Parts:
    """The parts of a decoding's first query; raises SramOverflow where its blocks do not fit the chip."""
    problem = decoding.problem
    head = decoding.changed(batch=1, heads=1, kv_heads=1, block_q=MIN_BLOCK)
    tiles = min(MOST_BLOCKS, MOST_VALUES / (problem.head_dim * decoding.tiling.block_kv))
    run = drawable(head, tiles)
    q, k, v = (array[0] for array in make_inputs(run.problem))
    keys, found = _keys(run), execute(run, q, k, v)
    last = np.maximum(-(-keys[:, 1] // run.tiling.block_kv) - 1, 0)
    none = keys[:, 0] == keys[:, 1]
    out, lse = found.parts[0][:, 0], found.parts[1][:, 0].astype(np.float64)
    steps = online_steps(lse)
    weights = steps.weights / np.where(steps.l > 0, steps.l, 1)[:, None]
    merged = np.c_[steps.m, steps.l, log_sum_exp(steps.m, steps.l), weights @ out]
    merged = np.r_[[[-np.inf, 0, -np.inf, *np.zeros(out.shape[1])]], merged]
    exact = exact_tiles(run, q, k, v)
    m, sums = np.where(none, -np.inf, found.m[0, last, 0]), np.where(none, 0, found.l[0, last, 0])
    results = found.out[0], exact.out[0], float(exact.lse[0])
    return Parts(run, keys, m, sums, lse, out, steps, merged, *results)


def _keys(experiment: Experiment) -> np.ndarray:
    """[splits, 2] keys of each split of the first block of rows, as far as the query sees them."""
    phase, splits = simulate(experiment).schedule.phases[0], experiment.tiling.splits
    ends = np.stack([phase.first[:splits], phase.stop[:splits]], 1) * experiment.tiling.block_kv
    (low,), (high,) = visible_keys(experiment.problem, np.zeros(1, np.int64))
    return np.where(ends[:, :1] < ends[:, 1:], np.clip(ends, low, high), high)


def grouped(decoding: Experiment) -> dict[int, Simulation]:
    """The decoding with a key head for each head, with the scenario's, and with one; the kernel's splits."""
    problem = decoding.problem
    found = {}
    for heads in sorted({problem.heads, problem.kv_heads, 1}, reverse=True):
        one = decoding.changed(kv_heads=heads)
        one = one.changed(block_q=own_blocks(one.problem, one.gpu)[0])
        found[heads] = simulate(one.changed(splits=kernel_splits(one)))
    return found


def recorded_near(recording: Recording, decoding: Experiment) -> tuple[Decoding, ...]:
    """The recorded rows of one query nearest to a scenario's by keys, head dim, sharing heads; or none."""
    rows = [row for row in recording.decoding if row.problem.seq_q == 1]
    rows.sort(key=lambda row: (row.problem.heads, row.problem.kv_heads))
    found = nearest(rows, decoding, doublings(length), WIDTH, doublings(sharing_heads))
    return tuple(row for row in recording.decoding if row.problem == found.problem)


def recorded_decoding(rows: Sequence[Decoding], hardware: str) -> Experiment:
    """What was recorded as a decoding of the model, in the kernel's blocks."""
    (problem,) = {row.problem for row in rows}
    one = Experiment(problem=problem, hardware=hardware)
    block_kv = next((row.block_kv for row in rows if row.block_kv), own_blocks(problem, one.gpu)[1])
    return decoding_of(one.changed(block_kv=block_kv))


PAGE_SIZES = (16, 32, 64, 128, 256)  # keys
SEQUENCES = (2, 3, 4, 5, 6, 7, 8)
CHOICES = {"pool_page": (PAGE_SIZES, 16), "sequences": (SEQUENCES, 6)}  # all that each may be, the usual one
MOST_ROOM = 2048  # keys of a sequence of which every page is drawn
GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Paging:
    """Sequences of different lengths in one pool of pages, as large as a whole cache for each would be."""

    lengths: tuple[int, ...]  # keys that each sequence has
    room: int  # keys that a whole cache must have room for: the most that a sequence may get
    page_size: int  # keys of a page
    key_bytes: int  # bytes of K and V of one key in one layer, all KV heads
    table: tuple[tuple[int, ...], ...]  # of each sequence the pages that hold its keys, in their order

    @property
    def pages(self) -> int:
        return len(self.lengths) * self.room // self.page_size

    @property
    def taken(self) -> int:
        return sum(map(len, self.table))

    @property
    def taken_slots(self) -> int:
        return self.taken * self.page_size

    @property
    def unused_slots(self) -> int:
        """Slots of pages that are taken which hold no key: the internal fragmentation."""
        return self.taken_slots - sum(self.lengths)

    @property
    def unused_share(self) -> float:
        return self.unused_slots / self.taken_slots

    @property
    def more(self) -> int:
        """Further sequences of the average length for which pages are free."""
        return (self.pages - self.taken) * len(self.lengths) // self.taken

    @property
    def owners(self) -> np.ndarray:
        """[pages, 2]: the sequence that has each page, -1 for a free one, and how many keys it holds."""
        found = np.tile([-1, 0], (self.pages, 1))
        for sequence, pages in enumerate(self.table):
            for index, page in enumerate(pages):
                held = min(self.page_size, self.lengths[sequence] - index * self.page_size)
                found[page] = sequence, held
        return found


def paging_of(problem: Problem, sequences: int, page_size: int | None) -> Paging:
    """As many sequences of a scenario's model, each with room for its keys, at most MOST_ROOM of them.

    Without a page size a page is a whole cache: as large as the room of a sequence.
    """
    room = max(PAGE_SIZES[-1], min(MOST_ROOM, problem.seq_kv // PAGE_SIZES[-1] * PAGE_SIZES[-1]))
    lengths, size = lengths_of(sequences, room), page_size or room
    key_bytes = problem.kv_heads * (problem.head_dim + problem.v_dim) * problem.itemsize
    return Paging(lengths, room, size, key_bytes, allocated(lengths, size))


def lengths_of(sequences: int, room: int) -> tuple[int, ...]:
    """Keys of each of some sequences: spread evenly from none to all that there is room for."""
    return tuple(max(1, round((index + 1) * GOLDEN % 1 * room)) for index in range(sequences))


@lru_cache(maxsize=64)
def allocated(lengths: tuple[int, ...], page_size: int) -> tuple[tuple[int, ...], ...]:
    """The pages of each sequence, by running: prompts, half of each, first, then a key each in turn."""
    table: list[list[int]] = [[] for _ in lengths]
    prompts = ((sequence, key) for sequence, length in enumerate(lengths) for key in range(length // 2))
    turns = (
        (sequence, length // 2 + turn)
        for turn in range(max(lengths))
        for sequence, length in enumerate(lengths)
        if length // 2 + turn < length
    )
    free = count()
    for sequence, key in chain(prompts, turns):
        if key % page_size == 0:
            table[sequence].append(next(free))
    return tuple(map(tuple, table))
