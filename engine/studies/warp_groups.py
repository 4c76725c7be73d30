"""Inside one block of threads of FlashAttention-3 over time: copies, matrix products and softmax; modelled.

Each mark is as long as its work takes the unit that does it: the tensor cores of the SM take one warp group's
products after another's, and so do its exponentials. With overlap a warp group issues Q Kᵀ of a key block
together with P V of the one before, and its softmax runs under the other groups' products (Shah et al., arXiv
2407.08608, section 3). The paper would run it under the group's own P V as well; in the kernel the compiler
waits for that product first, and so do the lanes. Without, all warp groups do the same at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from engine.algorithms import Pipeline, flash3
from engine.experiment import Experiment
from engine.model.launch import Launch, launch
from engine.model.rates import CACHE_BYTES_PER_CLOCK, LATENCY, WARP_GROUP_ROWS, Rates
from engine.model.timeline import MODELLED
from engine.model.visit import arithmetic_seconds, visit_seconds, with_copies
from engine.schedule.step import Tensor

BUFFERS = 2  # for K, and for V
MOST_VISITS = 4  # that are drawn of a tile
NEXT_VISITS = 1  # that are drawn of the tile after it
QK, SOFTMAX, PV, STORE = "Q Kᵀ", "softmax", "P V", "store O"


@dataclass(frozen=True)
class Mark:
    """One operation inside a block: what, on which key block (-1: none), from when to when.

    start and end are seconds from the block's start.
    """

    operation: str
    key_block: int
    start: float
    end: float


@dataclass(frozen=True)
class Lane:
    """What one part of a block does: its copying warp, or one of its warp groups; marks in order of start."""

    name: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Lanes:
    """Inside one block of an experiment.

    Attributes:
        origin: "modelled", or "recorded on" a GPU and a date.
        head, query_block: which block it is.
        lanes: side by side, the copying one first.
    """

    experiment: Experiment
    origin: str
    head: int
    query_block: int
    lanes: tuple[Lane, ...]

    @property
    def seconds(self) -> float:
        """From the block's start to its last mark's end."""
        return max(mark.end for lane in self.lanes for mark in lane.marks)


@dataclass(frozen=True)
class Inside:
    """One tile of a block of threads and the start of its next.

    Attributes:
        lanes: copies first, then the warp groups.
        visits: key blocks drawn of the tile; visits_in_all: how many it has.
        switch: seconds at which the first warp group starts on the next tile.
        idle: seconds that it waited for it.
        period: seconds between one visit and the next once they follow each other evenly: the model's, or
            what is drawn where that is longer.
        tensor_busy, softmax_busy: share of such a period in which the unit works.
    """

    lanes: Lanes
    visits: int
    visits_in_all: int
    switch: float
    idle: float
    period: float
    tensor_busy: float
    softmax_busy: float


@dataclass(frozen=True)
class Costs:
    """What one SM takes, all in seconds.

    Attributes:
        product, softmax: one warp group's Q Kᵀ or P V, and its softmax, of one visit.
        turn: what a unit loses when it passes from one warp group to the next.
        copies: K and V of a visit, at the rate that all SMs together get them from L2.
        query, key: the copy of Q of a tile, and of K (or V) of a visit, on its way from L2.
        latency: from asking for a copy to its first byte.
        store: O of a tile, until it has left.
    """

    product: float
    softmax: float
    turn: float
    copies: float
    query: float
    key: float
    latency: float
    store: float


@lru_cache(maxsize=128)
def inside(experiment: Experiment, pipeline: Pipeline) -> Inside:
    """The last query block of a head, which sees the most keys, under a pipeline."""
    experiment = experiment.changed(algorithm=flash3.ALGORITHM.key)
    run = launch(experiment)
    (phase,) = run.schedule.phases
    in_all = int(phase.visits[-1])
    visits = min(in_all, MOST_VISITS)
    groups = run.tiling.block_q // WARP_GROUP_ROWS
    costs = _costs(run, pipeline, groups)
    keys = [int(phase.stop[-1]) - 1 - step for step in range(visits)]
    block = _Block(pipeline, costs, groups)
    block.tile(keys)
    block.tile(keys[:NEXT_VISITS])
    stored = next(mark.end for mark in block.marks[1] if mark.operation == STORE)
    switch = next(mark.start for mark in block.marks[1] if mark.operation == QK and mark.start >= stored)
    names = ["copies by TMA" if pipeline.specialised else "copies"]
    names += [f"warp group {group + 1}" for group in range(groups)]
    lanes = tuple(Lane(name, tuple(marks)) for name, marks in zip(names, block.marks, strict=True))
    products, softmax = groups * 2 * costs.product, groups * costs.softmax
    starts = [mark.start for mark in block.marks[1] if mark.operation == QK][:visits]
    period = with_copies(pipeline, arithmetic_seconds(pipeline, products, softmax), costs.copies)
    # where all wait for copies, the last group's softmax has no other group's products to run under
    period = max([period, *(later - before for before, later in pairwise(starts[-2:]))])
    return Inside(
        Lanes(experiment, MODELLED, 0, len(phase.visits) - 1, lanes),
        visits,
        in_all,
        switch,
        switch - stored,
        period,
        products / period,
        softmax / period,
    )


def _costs(run: Launch, pipeline: Pipeline, groups: int) -> Costs:
    gpu, schedule, tiling = run.gpu, run.schedule, run.tiling
    (phase,) = schedule.phases
    rates = Rates.of(gpu, run.problem.dtype)
    products, softmax, copies = visit_seconds(run, phase, rates)
    query = gpu.sms * schedule.amounts[Tensor.Q].of(tiling.block_q, tiling.block_kv) / rates.cache
    # copies that run ahead have a latency and the SM's own way from L2; else all SMs' copies come at once
    own_way = rates.cache / (CACHE_BYTES_PER_CLOCK * gpu.sms * gpu.clock_hz)
    width, latency = (own_way, LATENCY) if pipeline.asynchronous else (1.0, 0.0)
    return Costs(
        product=products / 2 / groups,
        softmax=softmax / groups,
        turn=(arithmetic_seconds(pipeline, products, softmax) - max(products, softmax)) / groups
        if pipeline.overlapped
        else 0.0,
        copies=copies,
        query=width * query,
        key=width * copies / 2,
        latency=latency,
        store=own_way * query + LATENCY,
    )


class _Block:
    """A block of threads that works on one tile after another; `marks` by lane, the copies' first."""

    def __init__(self, pipeline: Pipeline, costs: Costs, groups: int):
        self.pipeline, self.costs, self.groups = pipeline, costs, groups
        self.marks: list[list[Mark]] = [[] for _ in range(groups + 1)]
        self.link = self.tensor = self.exponentials = 0.0
        self.ready = [0.0] * groups  # when each warp group can go on
        self.key_done: list[float] = []  # when the last group was done with K, and V, of each visit
        self.value_done: list[float] = []
        self.begins = 0.0
        self.visit = 0  # of this tile and those before it

    def tile(self, keys: list[int]) -> None:
        """One tile that sees these key blocks."""
        query = 0.0
        for step, key in enumerate(keys):
            k_there = self._copy("K", key, self._free(self.key_done), self.costs.key)
            if step == 0:
                query = self._copy("Q", -1, self.begins, self.costs.query)
            v_there = self._copy("V", key, self._free(self.value_done), self.costs.key)
            there = max(k_there, query) if self.pipeline.asynchronous else max(v_there, query)
            if self.pipeline.overlapped:
                self._take_turns(step, keys, there, v_before=v_there if step == 0 else self.v_there)
                self.v_there = v_there
            else:
                self._in_step(key, there, v_there)
            self.visit += 1
        if self.pipeline.overlapped:
            self._last_product(keys[-1], self.v_there)
        for group in range(self.groups):
            self._mark(group + 1, STORE, -1, self.ready[group], self.costs.store)
            self.ready[group] += self.costs.store
        if not self.pipeline.specialised:  # the block ends, and another begins
            self.begins = max(self.ready)

    def _free(self, done: list[float]) -> float:
        """When a buffer is free for the next copy, or the copy is asked for."""
        if not self.pipeline.asynchronous:
            return max(self.ready)
        freed = done[self.visit - BUFFERS] if self.visit >= BUFFERS else 0.0
        return max(freed, self.begins)

    def _copy(self, name: str, key: int, asked: float, seconds: float) -> float:
        """Copies follow each other on the way from L2; returns when this one is there."""
        start = max(asked, self.link)
        self.link = start + seconds
        self._mark(0, name, key, start, self.costs.latency + seconds)
        return self.link + self.costs.latency

    def _take_turns(self, step: int, keys: list[int], k_there: float, v_before: float) -> None:
        """Overlap: a group issues Q Kᵀ with P V of the visit before; its softmax waits for both."""
        costs, done = self.costs, []
        for group in range(self.groups):
            start = max(self.ready[group], self.tensor, k_there)
            scored = self._mark(group + 1, QK, keys[step], start, costs.product)
            self.tensor = scored
            if step:
                self.tensor = self._mark(group + 1, PV, keys[step - 1], max(scored, v_before), costs.product)
            ended = self.tensor
            self.tensor += costs.turn
            begun = max(ended, self.exponentials)
            softmax = self._mark(group + 1, SOFTMAX, keys[step], begun, costs.softmax)
            self.exponentials = softmax + costs.turn
            self.ready[group] = max(ended, softmax)
            done.append((scored, ended))
        self.key_done.append(max(scored for scored, _ in done))
        if step:
            self.value_done.append(max(ended for _, ended in done))

    def _last_product(self, key: int, v_there: float) -> None:
        for group in range(self.groups):
            start = max(self.ready[group], self.tensor, v_there)
            self.tensor = self.ready[group] = self._mark(group + 1, PV, key, start, self.costs.product)
        self.value_done.append(self.tensor)

    def _in_step(self, key: int, k_there: float, v_there: float) -> None:
        """No overlap: all groups do the same, and share the unit that does it."""
        costs, groups = self.costs, self.groups
        start = max(max(self.ready), k_there)
        scored, weighed = start + groups * costs.product, start + groups * (costs.product + costs.softmax)
        added = max(weighed, v_there)
        for group in range(groups):
            self._mark(group + 1, QK, key, start, groups * costs.product)
            self._mark(group + 1, SOFTMAX, key, scored, groups * costs.softmax)
            self.ready[group] = self._mark(group + 1, PV, key, added, groups * costs.product)
        self.key_done.append(scored)
        self.value_done.append(self.ready[0])

    def _mark(self, lane: int, operation: str, key: int, start: float, seconds: float) -> float:
        """Write down what a lane does; returns when it ends."""
        self.marks[lane].append(Mark(operation, key, start, start + seconds))
        return start + seconds
