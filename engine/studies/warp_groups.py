"""Inside one block of threads of FlashAttention-3 over time: copies, matrix products and softmax; modelled.

Each mark is as long as its work takes the unit that does it: the tensor cores of the SM take one warp group's
products after another's, and so do its exponentials. With overlap a warp group issues Q Kᵀ of a key block
together with P V of the one before, and its softmax runs under the other groups' products (Shah et al., arXiv
2407.08608, section 3). The paper would run it under the group's own P V as well; in the kernel the compiler
mostly waits for that product first, and so do the lanes. Without, all warp groups do the same at once.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from engine.algorithms import Pipeline, flash3
from engine.experiment import Experiment
from engine.model.launch import Launch, launch
from engine.model.rates import CACHE_BYTES_PER_CLOCK, WARP_GROUP_ROWS, Rates
from engine.model.visit import arithmetic_seconds, visit_seconds, with_copies
from engine.schedule.step import Tensor

BUFFERS = 2  # for K, and for V
MOST_VISITS = 4  # that are drawn of a tile
NEXT_VISITS = 1  # that are drawn of the tile after it
QK, SOFTMAX, PV, STORE = "Q Kᵀ", "softmax", "P V", "store O"


class Mark(NamedTuple):
    """One operation inside a block: in which lane, what, on which key block (-1: none), and its seconds."""

    lane: int
    operation: str
    key_block: int
    start: float
    end: float


@dataclass(frozen=True)
class Inside:
    """One tile of a block of threads and the start of its next, modelled."""

    experiment: Experiment  # whose block it is, under FlashAttention-3
    lanes: tuple[str, ...]  # names of what works side by side: the copying warp, and the warp groups
    marks: tuple[Mark, ...]  # what they do, each lane's in order of start
    visits: int  # key blocks drawn of the tile; visits_in_all: how many it has
    visits_in_all: int
    switch: float  # seconds at which the first warp group starts on the next tile
    # seconds between one visit and the next once they follow each other evenly: the model's, or what is drawn
    # where that is longer
    period: float
    # tensor_busy, softmax_busy: share of such a period in which the unit works
    tensor_busy: float
    softmax_busy: float

    @property
    def seconds(self) -> float:
        return max(mark.end for mark in self.marks)


@lru_cache(maxsize=128)
def inside(experiment: Experiment, pipeline: Pipeline) -> Inside:
    """The last query block of a head, which sees the most keys, under a pipeline."""
    experiment = experiment.changed(algorithm=flash3.ALGORITHM.key)
    run = launch(experiment)
    (phase,) = run.schedule.phases
    in_all = int(phase.visits[-1])
    visits = min(in_all, MOST_VISITS)
    keys = [int(phase.stop[-1]) - 1 - step for step in range(visits)]
    block = _Block(run, pipeline)
    block.tile(keys)
    block.tile(keys[:NEXT_VISITS])
    first = [mark for mark in block.marks if mark.lane == 1]
    stored = next(mark.end for mark in first if mark.operation == STORE)
    starts = [mark.start for mark in first if mark.operation == QK]
    switch = next(start for start in starts if start >= stored)
    period = with_copies(pipeline, block.arithmetic, block.copies)
    # where all wait for copies, the last group's softmax has no other group's products to run under
    period = max([period, *(later - before for before, later in pairwise(starts[:visits][-2:]))])
    lanes = "copies by TMA" if pipeline.specialised else "copies", *block.groups.values()
    busy = (len(block.groups) * work / period for work in (2 * block.product, block.softmax))
    return Inside(experiment, lanes, tuple(block.marks), visits, in_all, switch, period, *busy)


class Block:
    """What lanes of a block of threads do, as it is written down, and when its units are free."""

    def __init__(self):
        self.marks: list[Mark] = []
        self.link = self.tensor = 0.0  # when the way from L2 and the tensor cores are free

    def mark(self, lane: int, operation: str, key: int, start: float, seconds: float) -> float:
        self.marks.append(Mark(lane, operation, key, start, start + seconds))
        return start + seconds

    def copied(self, lane: int, name: str, key: int, asked: float, seconds: float, latency: float) -> float:
        """Copies follow each other on the way from L2; returns when this one is there."""
        start = max(asked, self.link)
        self.link = start + seconds
        return self.mark(lane, name, key, start, latency + seconds)


class _Block(Block):
    """A block of threads that works on one tile after another.

    Attributes, all in seconds of one SM:
        product, softmax: one warp group's Q Kᵀ or P V, and its softmax, of one visit; arithmetic: of all.
        turn: what a unit loses when it passes from one warp group to the next.
        copies: K and V of a visit, at the rate that all SMs together get them from L2.
        query, key: the copy of Q of a tile, and of K (or V) of a visit, on its way from L2.
        latency: from asking for a copy to its first byte.
        store: O of a tile, until it has left.
    """

    def __init__(self, run: Launch, pipeline: Pipeline):
        super().__init__()
        (phase,), gpu, tiling = run.schedule.phases, run.gpu, run.tiling
        rates, count = Rates.of(gpu, run.problem.dtype), tiling.block_q // WARP_GROUP_ROWS
        self.groups = {lane: f"warp group {lane}" for lane in range(1, count + 1)}
        products, softmax, self.copies = visit_seconds(run, phase, rates)
        self.product, self.softmax = products / 2 / count, softmax / count
        self.arithmetic = arithmetic_seconds(pipeline, products, softmax)
        self.turn = (self.arithmetic - max(products, softmax)) / count
        # copies that run ahead have a latency and the SM's own way from L2; else all SMs' copies come at once
        own_way = rates.cache / (CACHE_BYTES_PER_CLOCK * gpu.sms * gpu.clock_hz)
        latency = gpu.reached.latency
        width, self.latency = (own_way, latency) if pipeline.asynchronous else (1.0, 0.0)
        query = gpu.sms * run.schedule.amounts[Tensor.Q].of(tiling.block_q, tiling.block_kv) / rates.cache
        self.query, self.key, self.store = width * query, width * self.copies / 2, own_way * query + latency
        self.pipeline = pipeline
        self.exponentials = self.begins = 0.0
        self.ready = dict.fromkeys(self.groups, 0.0)  # when each warp group can go on
        self.done = {"K": [], "V": []}  # when the last group was done with those of each visit
        self.visit = 0  # of this tile and those before it

    def tile(self, keys: list[int]) -> None:
        before, query, value_before = None, 0.0, 0.0
        for key in keys:
            key_there = self.copied(0, "K", key, self._free("K"), self.key, self.latency)
            if before is None:
                query = self.copied(0, "Q", -1, self.begins, self.query, self.latency)
            value_there = self.copied(0, "V", key, self._free("V"), self.key, self.latency)
            there = max(key_there if self.pipeline.asynchronous else value_there, query)
            if self.pipeline.overlapped:
                self._take_turns(key, there, before, value_before)
            else:
                self._in_step(key, there, value_there)
            self.visit, before, value_before = self.visit + 1, key, value_there
        if self.pipeline.overlapped:
            for group in self.groups:
                self.ready[group] = self._product(group, PV, before, max(self.ready[group], value_before))
            self.done["V"].append(self.tensor)
        for group in self.groups:
            self.ready[group] = self.mark(group, STORE, -1, self.ready[group], self.store)
        if not self.pipeline.specialised:  # the block ends, and another begins
            self.begins = max(self.ready.values())

    def _free(self, name: str) -> float:
        """When the buffer of K or V is free for the next copy, or the copy is asked for."""
        if not self.pipeline.asynchronous:
            return max(self.ready.values())
        return max(self.done[name][self.visit - BUFFERS] if self.visit >= BUFFERS else 0.0, self.begins)

    def _take_turns(self, key: int, there: float, before: int | None, value_before: float) -> None:
        """Overlap: a group issues Q Kᵀ with P V of the visit before; its softmax waits for both."""
        for group in self.groups:
            scored = ended = self._product(group, QK, key, max(self.ready[group], there))
            if before is not None:
                ended = self._product(group, PV, before, value_before)
            self.tensor += self.turn
            softmax = self.mark(group, SOFTMAX, key, max(ended, self.exponentials), self.softmax)
            self.exponentials = softmax + self.turn
            self.ready[group] = max(ended, softmax)
        self.done["K"].append(scored)  # of the last group, to whom the tensor cores come last
        if before is not None:
            self.done["V"].append(ended)

    def _product(self, group: int, operation: str, key: int, ready: float) -> float:
        """The tensor cores take one group's product after another's; returns when this one ends."""
        self.tensor = self.mark(group, operation, key, max(ready, self.tensor), self.product)
        return self.tensor

    def _in_step(self, key: int, there: float, value_there: float) -> None:
        """No overlap: all groups do the same, and share the unit that does it."""
        product, softmax = len(self.groups) * self.product, len(self.groups) * self.softmax
        start = max(*self.ready.values(), there)
        scored, weighed = start + product, start + len(self.groups) * (self.product + self.softmax)
        for group in self.groups:
            self.mark(group, QK, key, start, product)
            self.mark(group, SOFTMAX, key, scored, softmax)
            self.ready[group] = self.mark(group, PV, key, max(weighed, value_there), product)
        self.done["K"].append(scored)
        self.done["V"].append(max(self.ready.values()))
