"""What crosses HBM while a call runs, as sampled and as modelled, and which recorded calls are drawn.

Modelled, the DRAM bytes are laid on the blocks of the modelled timeline. A block takes its steps evenly over
its time. The first of all blocks that asks for a tile fetches it, and what L2 has lost by then comes evenly
with the others. What blocks store lies in L2 until as much came after it as L2 holds, so that the last of it
is written when the call has ended. No more crosses at a time than the memory delivers: the rest waits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from engine.algorithms import ALGORITHMS, FORWARD, backward, flash1, standard
from engine.experiment import Experiment, ExperimentError
from engine.model.l2 import UNEVEN
from engine.model.launch import Launch, launch
from engine.model.rates import SCORE_OPERATIONS, Rates
from engine.model.seconds import modelled_time
from engine.model.simulated_timeline import simulate_timeline
from engine.model.simulation import simulate
from engine.model.timeline import MODELLED, Timeline, TimelineError
from engine.model.traffic import Traffic, compulsory_bytes
from engine.model.traffic import traffic as traffic_of
from engine.problem.gpu import Gpu
from engine.problem.hardware import gpu_named
from engine.recordings.file import is_of, recordings
from engine.recordings.rows import BACKWARD_PROVIDER, experiment_of
from engine.recordings.samples import SECTOR, Samples, nearest_samples
from engine.recordings.timelines import recorded_timeline
from engine.schedule.nest import HEAD, ROWS, TILE
from engine.schedule.schedule import Schedule
from engine.schedule.step import EXPONENTIALS, PARTIALS, Operation, Tensor


@dataclass(frozen=True)
class Crossings:
    """What the steps of one head move across HBM; arrays are [steps], bytes float64."""

    # read, written: by each step; all of them add up to `Traffic.dram` over the heads
    read: np.ndarray
    written: np.ndarray
    first: np.ndarray  # bool, whether the step is the first of its kernel to load its tile, or to store it


def crossings(launch: Launch, traffic: Traffic) -> Crossings:
    columns = launch.schedule.columns
    first, read, written = np.zeros(len(columns), bool), np.zeros(len(columns)), np.zeros(len(columns))
    for operation, index, tensor, once, again in parts_of(launch, traffic):
        loads = operation == Operation.LOAD
        asked, moved = (columns.read_bytes, read) if loads else (columns.written_bytes, written)
        steps = (columns.operation == operation) & (columns.phase == index) & (columns.tensor == tensor)
        steps = np.flatnonzero(steps)
        first[steps] = touches = _first_touches(launch.schedule, steps, tensor)
        moved[steps] = spread(asked[steps].astype(np.float64), touches, once, again) / traffic.heads
    return Crossings(read, written, first)


def parts_of(launch: Launch, traffic: Traffic) -> Iterator[tuple[Operation, int, Tensor, float, float]]:
    """(operation, kernel, tensor, bytes that cross once, bytes that cross again), over batch and heads.

    They add up to `traffic.dram`: less than kernels fetch where less is asked for.
    """
    phases = [replace(launch.schedule, phases=(kernel.phase,)) for kernel in launch.kernels]
    for operation, way in ((Operation.LOAD, "read"), (Operation.STORE, "written")):
        fetched = [
            (index, tensor, once, getattr(refetched, way).get(tensor, (0.0,))[0])
            for index, (phase, refetched) in enumerate(zip(phases, traffic.refetched, strict=True))
            for tensor, once in getattr(compulsory_bytes(phase), way).items()
            if once
        ]
        for index, tensor, once, again in fetched:
            every = sum(each[2] + each[3] for each in fetched if each[1] == tensor)
            share = getattr(traffic.dram, way)[tensor] / every
            yield operation, index, tensor, once * share, again * share


def spread(asked: np.ndarray, touches: np.ndarray, once: float, again: float) -> np.ndarray:
    """[steps] bytes: those of first touches in proportion to what each asks for, and the others likewise."""
    repeated = asked[~touches].sum()
    if not repeated:
        return asked * ((once + again) / asked.sum())
    return asked * np.where(touches, once / asked[touches].sum(), again / repeated)


def _first_touches(schedule: Schedule, steps: np.ndarray, tensor: Tensor) -> np.ndarray:
    """[steps] bool: which steps of one kernel, all on one tensor, are the first on their tile."""
    if tensor in PARTIALS:  # every split has its own
        return np.ones(len(steps), bool)
    columns, amount, keys = schedule.columns, schedule.amounts[tensor], len(schedule.key_rows) + 1
    tile = np.zeros(len(steps), np.int64)
    if amount.by_query:
        tile += (columns.query_block[steps] + 1) * keys
    if amount.by_key:
        tile += columns.key_block[steps] + 1
    at = np.full((len(schedule.query_rows) + 1) * keys, -1)
    at[tile[::-1]] = np.arange(len(steps))[::-1]  # of several the first stands, as it is written last
    touches = np.zeros(len(steps), bool)
    touches[at[at >= 0]] = True
    return touches


BETWEEN_PRODUCTS = (Operation.MAXIMUM, Operation.SCORE_GRADIENT, Operation.ROW_TERMS)  # float32 arithmetic


def step_seconds(launch: Launch, traffic: Traffic | None = None) -> np.ndarray:
    """[steps] modelled seconds of one head's steps, which add up to the launch's (`traffic`: its own)."""
    schedule, problem = launch.schedule, launch.problem
    seconds, columns = modelled_time(launch, traffic or traffic_of(launch)).parts, schedule.columns
    rates = Rates.of(launch.gpu, problem.dtype)
    scores = schedule.query_rows[columns.query_block].astype(np.float64)
    scores *= np.where(columns.key_block < 0, problem.seq_kv, schedule.key_rows[columns.key_block])
    cost = columns.flops / rates.matrix
    cost += (columns.read_bytes.astype(np.float64) + columns.written_bytes) / rates.cache
    cost += np.where(np.isin(columns.operation, EXPONENTIALS), scores / rates.exponentials, 0)
    cost += np.where(
        np.isin(columns.operation, BETWEEN_PRODUCTS), SCORE_OPERATIONS * scores / rates.vector, 0
    )
    for index, phase in enumerate(schedule.phases):
        steps = columns.phase == index
        cost[steps] *= seconds[phase.name] / cost[steps].sum()
    return cost


MOST_STEPS = 20_000_000  # over all heads, of a call whose bytes are followed
# Blocks of a wave begin so much apart, of the time until then, either way: recorded, the middle four fifths
# of them are within 0.2 to 0.8% (flash2) and 0.6 to 1.4% (flash3).
APART, GOLDEN = 0.01, 0.618
SHORTEST = 4e-6  # seconds over which a rate is told, and of a long call
SHARE = 64  # this part of it
CLEAR = 2.0  # times the mean rate of reads, over which a wave begins; it ends below the mean
SETS = (np.arange(16) + 0.5) / 16  # of L2, by how early they are full


@dataclass(frozen=True)
class Flow:
    """Bytes across HBM over time: of `Traffic.dram`, all that is read, and all that is written or left."""

    interval: float  # seconds of each interval
    # read, written: [intervals] float64, bytes
    read: np.ndarray
    written: np.ndarray
    left: float  # bytes that lie dirty in L2 when the call ends


def modelled_flow(experiment: Experiment, interval: float) -> Flow:
    """The bytes of a call's intervals; raises TimelineError where its blocks or steps are too many."""
    run, traffic, timeline = launch(experiment), simulate(experiment).traffic, simulate_timeline(experiment)
    if (steps := run.schedule.steps * traffic.heads) > MOST_STEPS:
        raise TimelineError(f"bytes are followed over at most {MOST_STEPS:,} steps, this takes {steps:,}")
    edges, gpu = np.arange(int(np.ceil(timeline.seconds / interval)) + 1) * interval, experiment.gpu
    asked = {way: np.zeros(len(edges) - 1) for way in (Operation.LOAD, Operation.STORE)}
    filled = np.zeros(len(edges) - 1)  # shares of L2
    for way, index, tensor, once, again in parts_of(run, traffic):
        begin, lasts, bytes_, first = _moves(run, timeline, index, way, tensor)
        came = _over(edges, begin, lasts, spread(bytes_, first, once, again))
        sms = 1 if run.schedule.amounts[tensor].by_query else gpu.sms
        filled += came * gpu.l2_copies(sms) / gpu.l2_bytes
        asked[way] += came
    filled, asked, stored = filled.cumsum(), *(each.cumsum() for each in asked.values())
    since = 1 + UNEVEN * np.log(SETS / (1 - SETS))  # shares of L2 that come before a set of it is full
    pushed_out = np.mean([np.interp(filled - share, filled, stored, left=0.0) for share in since], axis=0)
    read, written = _delivered(asked, pushed_out, gpu.reached.reads * gpu.memory_bytes_per_second * interval)
    return Flow(interval, read, written, stored[-1] - pushed_out[-1])


def _moves(run: Launch, timeline: Timeline, index: int, operation: Operation, tensor: Tensor) -> tuple:
    """Whenever a block of a kernel moves a tile: [moves] seconds at which that begins, and how long it lasts;
    bytes; bool, whether no block moved the tile before."""
    kernel, columns = run.kernels[index], run.schedule.columns
    phase, start = kernel.phase, int(np.searchsorted(columns.phase, index))
    part = columns.part(start, start + phase.steps)
    head, block = kernel.launched(timeline.order, 0, kernel.blocks)
    begin, end = (times[timeline.kernel == index] for times in (timeline.start, timeline.end))
    apart = APART * (2 * (np.arange(len(begin)) * GOLDEN % 1) - 1) * (begin - begin.min())
    apart = np.minimum(apart, timeline.seconds - end)
    begin, end = begin + apart, end + apart
    if phase.launched == TILE:  # work: which block of a head takes each step
        work = part.query_block * run.schedule.grid[1] + np.maximum(part.key_block, 0)
    elif phase.launched == ROWS:
        work, block = part.query_block, block * phase.rows // run.tiling.block_q
    else:
        steps = len(phase.before) + len(phase.each) * phase.visits + len(phase.after)
        work = np.repeat(np.arange(len(steps)) * (phase.launched != HEAD), steps)
    count = np.bincount(work)
    rank = np.arange(len(work)) - (count.cumsum() - count)[work]
    if phase.launched in (TILE, ROWS):
        count, rank = np.ones_like(count), np.zeros_like(rank)
    moving = np.flatnonzero((part.operation == operation) & (part.tensor == tensor))
    low, high = (np.searchsorted(work[moving], block, side) for side in ("left", "right"))
    by = np.repeat(np.arange(len(block)), high - low)
    step = moving[np.arange(len(by)) - np.repeat((high - low).cumsum() - high, high - low)]
    lasts = ((end - begin) / count[block])[by]
    begin = begin[by] + rank[step] * lasts
    bytes_ = (part.read_bytes if operation == Operation.LOAD else part.written_bytes)[step].astype(float)
    if tensor in PARTIALS or phase.launched == ROWS:  # each block has its own
        return begin, lasts, bytes_, np.ones(len(by), bool)
    amount = run.schedule.amounts[tensor]
    tile = head[by] if amount.by_query else head[by] * kernel.group // run.problem.group
    for own, blocks in ((amount.by_query, part.query_block), (amount.by_key, part.key_block)):
        tile = tile * (blocks.max() + 2) + own * (blocks[step] + 1)
    earliest = np.full(tile.max(initial=0) + 1, np.inf)
    np.minimum.at(earliest, tile, begin)
    first = begin == earliest[tile]
    together = first.nonzero()[0]  # of several at the same time one is the first
    first[together] = False
    first[together[np.unique(tile[together], return_index=True)[1]]] = True
    return begin, lasts, bytes_, first


def _over(edges: np.ndarray, begin: np.ndarray, lasts: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """[intervals] of amounts that each come evenly, from when on and for how long."""
    begin, lasts, amount = (each[amount != 0] for each in (begin, lasts, amount))  # L2 answers most moves
    lasts = np.maximum(lasts, edges[1] / 1000)
    times = np.clip(np.concatenate((begin, begin + lasts)), 0, edges[-1])
    change, bins = np.concatenate((amount / lasts, -amount / lasts)), np.ceil(times / edges[1]).astype(int)
    rates = np.bincount(bins, change, len(edges)).cumsum()
    moments = np.bincount(bins, change * times, len(edges)).cumsum()
    return np.diff(edges * rates - moments)


def _delivered(read: np.ndarray, written: np.ndarray, most: float) -> Iterator[np.ndarray]:
    """Bytes of each interval as they cross, of those asked for by then: in their order, and no more an
    interval than the memory delivers, but all by the last."""
    asked, full = read + written, most * np.arange(1, len(read) + 1)
    crossed = np.minimum(full + np.minimum.accumulate(asked - full), full)
    crossed[-1] = asked[-1]
    for way in (read, written):
        yield np.diff(np.interp(crossed, np.append(0, asked), np.append(0, way)), prepend=0.0)


class Outline(NamedTuple):
    total: float  # bytes read and written, with those that are left in L2 at the end
    peak: float  # read and written together, bytes per second
    waves: tuple[float, ...]  # in which it fetches: when each begins, shares of the call


def outline(flow: Flow) -> Outline:
    read, both = flow.read, flow.read + flow.written
    over = np.ones(max(1, round(SHORTEST / flow.interval), len(read) // SHARE))  # intervals
    reads, rates = (np.convolve(bytes_, over, "same") / len(over) for bytes_ in (read, both))
    waves, within = [], False
    for at, rate in enumerate(reads):
        if not within and rate > CLEAR * read.mean():
            waves.append(at / len(reads))
        within = rate > (1 if within else CLEAR) * read.mean()
    return Outline(float(both.sum() + flow.left), float(rates.max()) / flow.interval, tuple(waves))


INTERVALS = 400  # of what is modelled beside modelled blocks
ALIKE = 0.08  # by how much a run of its own with blocks noted may differ in its time from one sampled


@dataclass(frozen=True)
class SampledCall:
    """A call as a chip sampled it, recorded or measured here."""

    row: Samples  # what was sampled
    origin: str  # where and when, in words: "recorded on ...", "measured here, ..."
    gpu: Gpu = field(hash=False)  # whose memory sets the scale

    @cached_property
    def experiment(self) -> Experiment | None:
        """The call as a scenario of the model; None where the model has no such call."""
        row, algorithm = self.row, self.row.provider
        if row.direction != FORWARD:
            algorithm = backward.ALGORITHM.key if algorithm == BACKWARD_PROVIDER else None
        if algorithm not in ALGORITHMS or row.numbers != Samples.numbers:
            return None
        try:
            found = experiment_of(row.problem, algorithm, row.block_q, row.block_kv, self.gpu.key)
            found = found if row.block_q else found.in_own_tiling()
            return found.changed(splits=row.splits) if row.splits else found
        except ExperimentError:
            return None

    @property
    def tensors(self) -> list[tuple[list[Tensor], list[Tensor]]]:
        """What each kernel loads and what it stores, by stretch of work; none where that cannot be told."""
        phases = [kernel.phase for kernel in launch(self.experiment).kernels] if self.experiment else []
        if len(phases) != len(self.row.kernels):
            return [([], [])] * len(self.row.kernels)
        return [
            tuple(
                list(dict.fromkeys(step.tensor for step in steps if step.operation == way))
                for way in (Operation.LOAD, Operation.STORE)
            )
            for steps in ((*phase.before, *phase.each, *phase.after) for phase in phases)
        ]

    @property
    def sampled(self) -> Flow:
        """What crossed HBM, from the first interval with work on."""
        row, first = self.row, next(iter(self.row.kernels), (0, 0))[0]
        read, written = (SECTOR * np.array(column[first:]) for column in (row.read, row.written))
        return Flow(row.interval, read, written, SECTOR * row.left)

    @property
    def flow(self) -> Flow | None:
        """The same as the model has it, in the row's intervals."""
        return _flow(self.experiment, self.row.interval) if self.experiment else None

    @property
    def timeline(self) -> Timeline | None:
        """The blocks of the same call in a run of its own, where one was recorded that took as long."""
        row = self.row
        if self.experiment is None:
            return None
        try:
            same = experiment_of(row.problem, row.provider, row.block_q, row.block_kv, self.gpu.key)
            found = recorded_timeline(recordings(), same)
        except TimelineError:
            return None
        return found if abs(found.seconds / row.seconds - 1) < ALIKE else None


@lru_cache(maxsize=32)
def _flow(experiment: Experiment, interval: float) -> Flow | None:
    try:
        return modelled_flow(experiment, interval)
    except TimelineError:
        return None


def flow_beside(timeline: Timeline) -> Flow | None:
    """What crossed HBM while blocks ran, on their clock: modelled, or sampled in another run of the call."""
    experiment = timeline.experiment
    if timeline.origin != MODELLED:
        same = (call for call in sampled_calls(experiment) if call.row.provider == experiment.algorithm)
        return next((call.sampled for call in same if call.timeline == timeline), None)
    own = timeline.order == launch(experiment).order
    return _flow(experiment, timeline.seconds / INTERVALS) if own else None


def sampled_calls(experiment: Experiment) -> tuple[SampledCall, ...]:
    """The recorded calls to draw for a scenario: the nearest of its algorithm, and others of that work."""
    sampled = [one for one in recordings() if any(row.read for row in one.samples)]
    recording = next((one for one in sampled if is_of(one, experiment.hardware)), next(iter(sampled), None))
    if recording is None or (gpu := gpu_named(recording.device.gpu)) is None:
        return ()
    rows = recording.samples
    found = nearest_samples(rows, experiment) or nearest_samples(rows, experiment, standard.ALGORITHM.key)
    if found is None:
        return ()
    own = found[0]
    like = {row.provider: row for row in rows if row.read and _work(row) == _work(own)}
    if own.provider != flash1.ALGORITHM.key:  # with few heads it lasts so long that the others are too short
        like.pop(flash1.ALGORITHM.key, None)
    return tuple(SampledCall(like[key], recording.origin, gpu) for key in ALGORITHMS if key in like)


def _work(row: Samples) -> tuple:
    return row.problem, row.direction, row.numbers, row.cold
