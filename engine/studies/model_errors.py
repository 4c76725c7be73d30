"""How far the model is from what GPUs were recorded to do, by kind of call."""

import csv
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import NamedTuple

import numpy as np

from engine.algorithms import BACKWARD, FORWARD, offered
from engine.algorithms.split_kv import ALGORITHM as SPLIT_KV
from engine.experiment import Experiment, ExperimentError
from engine.model.launch import launch
from engine.model.occupancy import WARP, threads_of, tiles_in_flight
from engine.model.simulation import simulate
from engine.problem.cache import kept_with
from engine.problem.hardware import gpu_named
from engine.recordings.counters import RecordedCounters, recorded_counters
from engine.recordings.file import JUDGES, recordings
from engine.recordings.recording import Recording
from engine.recordings.rows import BACKWARD_PROVIDER, MODEL_BLOCKS, experiment_of, modelled_backward
from engine.root import ROOT
from engine.studies.sampled_calls import SampledCall, outline
from engine.studies.your_model import layers_on, recorded_layers

FETCHED_AGAIN = 1.02  # times the compulsory bytes, from which on a call is said to read more than those


def in_range(rows: Iterable[RecordedCounters]) -> int:
    """Of how many calls what DRAM delivered lies within the model's range."""
    return sum(low <= row.dram_read <= high for row in rows for low, high in [row.dram_read_range])


KINDS = {  # of recorded calls that the model is held against
    "timed": "time, forward, in a kernel's own blocks",
    "swept": "time, forward, over sizes of blocks",
    "masked": "time, forward, with further masks, with terms, or with V of another head dim",
    "backward": "time, backward",
    "decoded": "time, decoding with split keys",
    "counted": "time under the profiler",
    "dram": "DRAM reads beyond the compulsory ones",
    "drawn times": "calls drawn by lot: time",
    "drawn dram": "calls drawn by lot: DRAM reads",
    "drawn l2": "calls drawn by lot: bytes from L2 to the SMs",
    "drawn requests": "calls drawn by lot: bytes that tiles request",  # where the share of L1 was counted
    "sampled bytes": "sampled over time: all bytes that cross HBM",
    "sampled peak": "sampled over time: the rate at the peak",
    "sampled waves": "sampled over time: how many waves fetch",
    "sampled starts": "sampled over time: when a wave begins, over the call",
    "layers": "layers of models, prefill and decoding: time",
    "layer shares": "layers of models: attention's share of the time, points",
}
TIMED, SWEPT, MASKED, BACKWARDS, DECODED, COUNTED, DRAM, *_ = KINDS
*_, DRAWN_TIMES, DRAWN_DRAM, DRAWN_L2, DRAWN_REQUESTS = [*KINDS][:11]
SAMPLED, LAYERS = [*KINDS][11:15], [*KINDS][15:]
MOST = 95  # per cent of calls that are off by less than what is told


@dataclass(frozen=True)
class Held:
    experiment: Experiment
    kind: str  # one of KINDS
    # modelled, recorded: seconds, or bytes
    modelled: float
    recorded: float

    @property
    def off(self) -> float:
        """How far the model is off, as a share of what was recorded, whichever way."""
        return abs(self.modelled / self.recorded - 1)


class ModelError(NamedTuple):
    """The model's errors over calls of one kind: shares of what was recorded."""

    count: int  # how many calls
    median: float  # half of them are off by less
    most: float  # MOST per cent of them are


@kept_with(1)
def errors(recording: Recording) -> dict[str, ModelError]:
    """By each kind of call that was recorded; none of a GPU without a preset."""
    off: dict[str, list[float]] = {}
    for one in held_calls(recording):
        off.setdefault(one.kind, []).append(one.off)
    return {kind: error(off[kind]) for kind in KINDS if kind in off}


def error(off: list[float]) -> ModelError:
    return ModelError(len(off), *np.percentile(off, (50, MOST)).tolist())


def held_calls(recording: Recording) -> tuple[Held, ...]:
    """Every call of this project in a recording, and those drawn by lot on the same GPU, simulated now."""
    if gpu_named(recording.device.gpu) is None:
        return ()
    drawn = [each for each in recordings(JUDGES) if each.device.gpu == recording.device.gpu]
    judged = (one for each in drawn for one in _drawn(recorded_counters(each)))
    found, own = [*_recorded(recording), *judged], layers_on(gpu_named(recording.device.gpu).key)
    for one in recorded_layers(own) if own else ():
        experiment, row = one.modelled.experiment, one.row
        found.append(Held(experiment, LAYERS[0], one.modelled.seconds, row.times.p50))
        found.append(Held(experiment, LAYERS[1], 1 + one.modelled_share - row.attention_share, 1.0))
    return tuple(found)


def _recorded(recording: Recording) -> Iterator[Held]:
    hardware = gpu_named(recording.device.gpu).key
    for find in (_in_turns, _swept):
        for one, kind, seconds in find(recording, hardware):
            yield Held(one, kind, simulate(one).modelled.seconds, seconds)
    yield from _backward(recording, hardware)
    yield from _sampled(recording)
    for one in recorded_counters(recording):
        yield Held(one.experiment, COUNTED, one.modelled_seconds, one.seconds)
        once = one.simulation.traffic.compulsory.total_read
        if one.dram_read > FETCHED_AGAIN * once:
            yield Held(one.experiment, DRAM, one.modelled_dram_read - once, one.dram_read - once)


def _drawn(calls: Iterable[RecordedCounters]) -> Iterator[Held]:
    for one in calls:
        yield Held(one.experiment, DRAWN_TIMES, one.modelled_seconds, one.seconds)
        yield Held(one.experiment, DRAWN_DRAM, one.modelled_dram_read, one.dram_read)
        yield Held(one.experiment, DRAWN_L2, one.modelled_read, one.read)
        if one.requested is not None:
            yield Held(one.experiment, DRAWN_REQUESTS, one.modelled_requested, one.requested)


Found = Iterator[tuple[Experiment, str, float]]


def _in_turns(recording: Recording, hardware: str) -> Found:
    """Medians in turns with others, in the kernel's own blocks or MODEL_BLOCKS; of split keys in theirs."""
    rows = [(TIMED, row, row.problem) for row in recording.timings]
    rows += [(MASKED, row, row.whole) for row in recording.variants]
    for kind, row, problem in rows:
        if row.provider in offered() and row.direction == FORWARD and row.times:
            one = experiment_of(problem, row.provider, *MODEL_BLOCKS, hardware).in_own_tiling()
            yield one, kind, row.times.p50
    for row in recording.decoding:
        if row.provider == SPLIT_KV.key and row.times and row.splits and not row.page_size:
            one = experiment_of(row.problem, SPLIT_KV.key, row.block_q, row.block_kv, hardware)
            yield one.changed(splits=row.splits), DECODED, row.times.p50


def _swept(recording: Recording, hardware: str) -> Found:
    """Of every size of blocks the kernel's own launch; the fastest where that is not there."""
    found: dict[Experiment, list[tuple[bool, float]]] = {}
    for row in recording.sweep:
        if row.algorithm in offered() and row.times:
            with suppress(ExperimentError):  # blocks in a stranger's file
                one = experiment_of(row.problem, row.algorithm, row.block_q, row.block_kv, hardware)
                run = launch(one)  # the warps and stages that the model takes the kernel to choose
                phase = run.kernels[0].phase
                own = tiles_in_flight(run.algorithm, run.schedule, phase, run.gpu)
                so = (row.warps, row.stages) == (threads_of(run.schedule, phase) // WARP, own)
                found.setdefault(one, []).append((not so, row.times.p50))
    yield from ((one, SWEPT, min(times)[1]) for one, times in found.items())


def _backward(recording: Recording, hardware: str) -> Iterator[Held]:
    for row in recording.timings:
        if (row.provider, row.direction) == (BACKWARD_PROVIDER, BACKWARD) and row.times:
            (modelled,) = modelled_backward([row], hardware)
            one = experiment_of(row.problem, row.provider, *MODEL_BLOCKS, hardware)
            yield Held(one, BACKWARDS, modelled["p50"], row.times.p50)


def _sampled(recording: Recording) -> Iterator[Held]:
    """Bytes over time, of calls from cold caches whose kernels the model knows."""
    gpu = gpu_named(recording.device.gpu)
    for call in (
        SampledCall(row, recording.origin, gpu) for row in recording.samples if row.read and row.cold
    ):
        one, flow = call.experiment, call.flow
        if flow is None:
            continue
        modelled, real = outline(flow), outline(call.sampled)
        counts = len(modelled.waves), len(real.waves)
        pairs = ((modelled.total, real.total), (modelled.peak, real.peak), counts)
        yield from (Held(one, kind, *pair) for kind, pair in zip(SAMPLED, pairs, strict=False) if pair[1])
        if counts[0] == counts[1]:
            starts = zip(modelled.waves, real.waves, strict=True)
            yield from (Held(one, SAMPLED[-1], 1 + start - recorded, 1.0) for start, recorded in starts)


FILE = ROOT / "assets" / "published.csv"
TAKEN = ("batch", "heads", "seq", "seq_kv", "head_dim")


@dataclass(frozen=True)
class Published:
    """A published rate and the modelled one, FLOP/s of one call; causal ones count half of the scores."""

    # this project's kernel that is nearest to the one that was timed, in its own blocks
    experiment: Experiment
    kernel: str  # the one that was timed
    rate: float  # what it was published to reach
    modelled: float  # what this project's is modelled to reach
    source: str  # where it was published, and what is assumed where it does not say

    @property
    def ratio(self) -> float:
        return self.modelled / self.rate


@cache
def published() -> tuple[Published, ...]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(_compared(row) for row in csv.DictReader(file))


def _compared(row: dict[str, str]) -> Published:
    causal = row["causal"] == "1"
    sizes = {name: int(row[name]) for name in TAKEN}
    one = Experiment.of(
        algorithm=row["algorithm"], hardware=row["hardware"], causal=causal, **sizes
    ).in_own_tiling()
    problem = one.problem
    scores = problem.batch * problem.heads * problem.seq_q * problem.seq_kv / (2 if causal else 1)
    rate = 4 * scores * problem.head_dim / simulate(one).modelled.seconds
    return Published(one, row["kernel"], 1e12 * float(row["tflops"]), rate, row["source"])


def medians() -> dict[str, float]:
    """The median of modelled over published by the name of each GPU, and of all rows, by no name."""
    found: dict[str, list[float]] = {"": []}
    for one in published():
        for name in ("", one.experiment.gpu.name):
            found.setdefault(name, []).append(one.ratio)
    return {name: median(ratios) for name, ratios in found.items()}
