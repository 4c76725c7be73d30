"""What the page of several GPUs asks: runs, curves over GPUs, what crosses links, and what fits memory."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from engine.algorithms import BACKWARD, FORWARD
from engine.algorithms.ring import meetings, step_kernel
from engine.experiment import Experiment
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.lanes import Lanes, Mark, lanes
from engine.model.cluster.seconds import COMPUTING, KINDS, MERGING, PACKING, TRANSFER, modelled
from engine.model.cluster.spread import ALL_GATHER, ALL_TO_ALL, METHODS, RING, RING_SEND, TWO_LEVEL, Spread
from engine.problem.cache import kept_with
from engine.problem.hardware import GPUS, LINKS, gpu_named
from engine.problem.problem import Mask, Problem
from engine.recordings.cluster import BOTH, ONE, ClusterTimeline, ClusterTiming, GpuMarks
from engine.recordings.file import CLUSTERS, recordings
from engine.recordings.recording import Recording
from engine.recordings.samples import SECTOR
from engine.schedule.step import STATISTIC_BYTES

NANO = 1e-9


def cluster_recordings(chosen: Recording | None) -> tuple[Recording, ...]:
    """The chosen recording alone if it has rows of several GPUs, else all here that have."""
    return (chosen,) if chosen and chosen.cluster else recordings(CLUSTERS)


class Held(NamedTuple):
    row: ClusterTiming
    recording: Recording
    modelled: float
    one_gpu: float | None

    @property
    def error(self) -> float:
        """How much longer the model says it takes, as a share of what was recorded."""
        return self.modelled / self.row.times.median - 1

    @property
    def efficiency(self) -> float | None:
        """Recorded: one GPU's seconds over those of all GPUs together."""
        return self.one_gpu and self.one_gpu / (self.row.gpus * self.row.times.median)


def held(every: tuple[Recording, ...]) -> tuple[Held, ...]:
    """Every recorded row of a method that the model has, and those of one GPU."""
    return tuple(one for recording in every for one in _held(recording))


@kept_with(1)
def _held(recording: Recording) -> tuple[Held, ...]:
    gpu = gpu_named(recording.device.gpu)
    if gpu is None:
        return ()
    ones = _of_one_gpu(recording)
    return tuple(
        Held(row, recording, seconds_of(row, gpu.key), ones.get((row.problem, row.direction)))
        for row in recording.cluster
        if row.times and row.provider in (*METHODS, ONE) and row.problem.mask.kinds <= {"causal"}
    )


@kept_with(1)
def _of_one_gpu(recording: Recording) -> dict[tuple[Problem, str], float]:
    """Seconds on one GPU, by what it computes: as this recording has them, or another of such GPUs."""
    alike = (one for one in reversed(recordings(CLUSTERS)) if one.device.gpu == recording.device.gpu)
    alone = (row for one in (*alike, recording) for row in one.cluster if row.provider == ONE and row.times)
    return {(row.problem, row.direction): row.times.median for row in alone}


def seconds_of(row: ClusterTiming, hardware: str) -> float:
    """What the model says that a row takes on such GPUs."""
    method = METHODS[0] if row.provider == ONE else row.provider
    spread = Spread(row.problem, row.gpus, method, row.problem.mask.causal, hardware=hardware)
    passes = (False, True) if row.direction == BOTH else (False,)
    return sum(modelled(spread, backward).seconds for backward in passes)


def errors(found: tuple[Held, ...]) -> tuple[float, float]:
    """What half of the rows, and 95% of them, are off by, whichever way."""
    return tuple(np.percentile([abs(one.error) for one in found], (50, 95)).tolist())


def recorded_lanes(spread: Spread, every: tuple[Recording, ...]) -> tuple[Lanes, ...]:
    """The rings that were recorded for a spread problem, as runs, of which each GPU computed all rounds.

    None where there is no such recording, or one GPU alone was not timed too.
    """
    runs = []
    for recording in every:
        alone = _of_one_gpu(recording).get((spread.problem, FORWARD))
        for one in recording.cluster_timelines:
            alike = (one.problem, one.gpus, one.direction) == (spread.problem, spread.gpus, FORWARD)
            whole = all(of.kind.count(KINDS.index(COMPUTING)) == one.gpus for of in one.marks)
            if alone and alike and whole and one.marks and one.provider in (RING, RING_SEND):
                own = spread.by(one.provider)
                marks = tuple(mark for gpu, of in enumerate(one.marks) for mark in _marks(own, gpu, of))
                seconds = max(mark.end for mark in marks)
                runs.append(Lanes(own, marks, seconds, False, recording.origin, alone))
    return tuple(runs)


def sent_bytes(spread: Spread) -> list[int]:
    """Bytes that each GPU of a ring sends, forward: its keys to whoever sees them, counted."""
    pairs = {(each.gpu, each.owner, each.keys) for each in meetings(spread.order, spread.problem)}
    chunk = spread.block * spread.gpus // spread.order.chunks
    return [chunk * sum(gpu != owner == sender for gpu, owner, _ in pairs) for sender in range(spread.gpus)]


def _marks(spread: Spread, gpu: int, of: GpuMarks) -> list[Mark]:
    """A GPU's events by their rounds: the calls compute a round each, what came before them lays K and V out.

    What is copied once the last round computes brings no keys: it tells the host how far the GPU has come.
    """
    spans = [
        (KINDS[kind], start * NANO, (start + length) * NANO)
        for kind, start, length in zip(of.kind, of.start, of.length, strict=True)
    ]
    calls = [span for span in spans if span[0] == COMPUTING]
    brought = [span for span in spans if span[0] == TRANSFER and span[1] < calls[-1][1]]
    met, marks = list(meetings(spread.order, spread.problem)), []
    for number, (kind, start, end) in enumerate(calls):
        owner = (gpu - number) % spread.gpus
        tiles = tuple((each.queries, each.keys) for each in met if (each.gpu, each.owner) == (gpu, owner))
        marks.append(Mark(gpu, kind, number, owner, start, end, tiles))
    for number, (kind, start, end) in enumerate(brought):
        later = 1 + number * (spread.gpus - 1) // len(brought)
        marks.append(Mark(gpu, kind, later, (gpu - later) % spread.gpus, start, end))
    for kind, start, end in spans:
        if kind in (MERGING, PACKING):
            what = (PACKING, 0) if start < calls[0][1] else (MERGING, spread.gpus)
            marks.append(Mark(gpu, *what, gpu, start, end))
    return marks


DRAWN = (2, 3, 4, 6, 8, 16, 24, 32, 48, 64)  # GPUs of a picture
TOKENS = tuple(2**power for power in range(13, 28))
ORDERS, WAYS, ALONE, RECORDED = "orders", "methods", "ring", "recorded"  # what stands beside the ring
COUNTS = (1, 2, 4, 8, 16, 64, 1024, 10_000)  # GPUs of a curve, straight beyond a host's
CAUSAL, FULL = "causal", "none"
# memory, as `kernels.distributed` holds it
TURNS = 2  # places to publish K and V in, used in turn
SLOTS = 3  # blocks of others' keys that are here or on their way
WAITING = 8  # outputs of rounds that wait to be merged, at most
# what the page asks: all that each may be, and what it usually is
CHOICES = {
    "gpus": (DRAWN, 4),
    "tokens": (TOKENS, 131_072),
    "link": (tuple(LINKS), "NVLink 4"),
    "mask": ((CAUSAL, FULL), CAUSAL),
    "pass": ((FORWARD, BACKWARD), FORWARD),
    "beside": ((ORDERS, WAYS, ALONE, RECORDED), ORDERS),
}


def spread_of(experiment: Experiment, tokens: int, gpus: int, causal: bool, fabric: Fabric) -> Spread:
    """A scenario's heads and dtype over so many tokens and GPUs; zigzag where causal."""
    problem = replace(experiment.problem, seq_q=tokens, seq_kv=tokens, mask=Mask(causal=causal))
    return Spread(problem, gpus, RING, causal, fabric, experiment.hardware)


def alone(spread: Spread, backward: bool) -> Experiment:
    """The whole sequence on one GPU, by the kernel that suits it."""
    key = BACKWARD if backward else step_kernel(spread.problem, GPUS[spread.hardware])
    return Experiment(spread.problem, key, hardware=spread.hardware).in_own_tiling()


TAUGHT_GPUS = 4  # of the tour


def taught(experiment: Experiment, zigzag: bool) -> Spread:
    """A scenario's tokens over a few GPUs in a ring, with a causal mask."""
    spread = spread_of(experiment, experiment.problem.seq_q, TAUGHT_GPUS, True, Fabric())
    return spread.by(RING, zigzag)


def runs_of(
    spread: Spread, beside: str, backward: bool = False, recordings: tuple[Recording, ...] = ()
) -> tuple[Lanes, ...]:
    """The ring of a spread problem, one of hosts where a host has too few GPUs, and what is beside it."""
    several = spread.gpus > spread.fabric.host
    ring = spread.by(TWO_LEVEL if several and spread.by(TWO_LEVEL).unserved is None else RING)
    if beside == ORDERS and spread.problem.mask.causal:
        return lanes(ring, backward), lanes(ring.by(ring.method, zigzag=False), backward)
    if beside == RECORDED:
        return lanes(ring, backward), *recorded_lanes(spread, recordings)
    ways = [RING] * (ring.method != RING) + [ALL_GATHER, ALL_TO_ALL] if beside == WAYS else []
    others = (spread.by(method) for method in ways)
    return lanes(ring, backward), *(lanes(each, backward) for each in others if each.unserved is None)


def beside_of(spread: Spread, backward: bool, recordings: tuple[Recording, ...]) -> list[str]:
    lanes_recorded = not backward and recorded_lanes(spread, recordings)
    return [ORDERS] * spread.problem.mask.causal + [WAYS, ALONE] + [RECORDED] * bool(lanes_recorded)


def over_gpus(spread: Spread) -> dict[int, float]:
    """Efficiency on more and more GPUs, forward, as far as the method serves and each has two tokens."""
    counts = sorted({*COUNTS, spread.gpus})
    every = (spread.on(gpus) for gpus in counts if 2 * gpus <= spread.problem.seq_q)
    return {one.gpus: modelled(one).efficiency for one in every if one.unserved is None}


def recorded_over_gpus(spread: Spread, found: tuple[Held, ...]) -> dict[str, dict[int, Held]]:
    """By method, the recorded forward passes of a spread's tokens and mask, by their GPUs."""
    points: dict[str, dict[int, Held]] = {}
    for one in found:
        row = one.row
        alike = (row.problem.seq_q, row.problem.mask) == (spread.problem.seq_q, spread.problem.mask)
        own_keys = row.problem.heads == row.problem.kv_heads
        if alike and own_keys and row.gpus > 1 and row.direction == FORWARD and one.efficiency:
            points.setdefault(row.provider, {})[row.gpus] = one
    return points


def sent_over_time(row: ClusterTimeline) -> dict[str, dict[float, float]]:
    """By GPU, what it sends over NVLink: bytes per second at milliseconds of the call."""
    return {
        f"GPU {gpu}": {
            round(at * row.interval * 1e3, 4): sectors * SECTOR / row.interval
            for at, sectors in enumerate(of.sent)
        }
        for gpu, of in enumerate(row.marks)
    }


class Room(NamedTuple):
    """Bytes of a token on the GPU that holds most: one layer, the forward pass, all heads."""

    spread: Spread
    own: float  # Q, K, V, O and lse of its own tokens
    others: float  # buffers for what passes by

    @classmethod
    def of(cls, spread: Spread) -> "Room":
        """That of a method on its GPUs, with the buffers of `kernels.distributed`."""
        problem, gpus = spread.problem, spread.gpus
        keys, queries = (heads * spread.row / gpus for heads in (2 * problem.kv_heads, problem.heads))
        lse = problem.all_heads * STATISTIC_BYTES / gpus
        if gpus == 1:
            others = 0.0
        elif spread.method == ALL_TO_ALL:  # Q, K, V and O of its heads; O as it is sent, and as it comes
            others = (2 * queries + keys + lse) + 2 * queries
        elif spread.by_steps:  # published K and V; those of others; O of rounds
            others = TURNS * keys + min(SLOTS, gpus - 1) * keys + min(WAITING, gpus) * (queries + lse)
        else:
            others = TURNS * keys + min(SLOTS, spread.groups) * keys * gpus / spread.groups + queries
        return cls(spread, 2 * queries + keys + lse, others)

    @property
    def bytes(self) -> tuple[float, float]:
        """All of it, and of it the buffers, of the whole sequence."""
        tokens = self.spread.problem.seq_q
        return tokens * (self.own + self.others), tokens * self.others

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that fits the GPUs' memory."""
        return int(GPUS[self.spread.hardware].memory_bytes / (self.own + self.others))


def rooms(spread: Spread) -> list[Room]:
    """One GPU, and every method that serves the problem on several."""
    every = [spread.on(1), *(spread.by(method) for method in (RING, ALL_GATHER, ALL_TO_ALL))]
    return [Room.of(one) for one in every if one.unserved is None]
