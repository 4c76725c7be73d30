"""Several GPUs as they were recorded: the model's times beside each row, and recorded lanes as runs."""

from typing import NamedTuple

import numpy as np

from engine.algorithms import FORWARD
from engine.algorithms.ring import meetings
from engine.model.cluster.lanes import COMPUTING, KINDS, MERGING, PACKING, TRANSFER, Lanes, Mark
from engine.model.cluster.seconds import modelled
from engine.model.cluster.spread import METHODS, RING, RING_SEND, Spread
from engine.problem.cache import kept_with
from engine.problem.hardware import gpu_named
from engine.problem.problem import Problem
from engine.recordings.cluster import BOTH, ONE, ClusterTimeline, ClusterTiming, GpuMarks
from engine.recordings.file import CLUSTERS, recordings
from engine.recordings.recording import Recording

NANO = 1e-9


def cluster_recordings(chosen: Recording | None) -> tuple[Recording, ...]:
    """The chosen recording alone if it has rows of several GPUs, else all here that have."""
    return (chosen,) if chosen and chosen.cluster else recordings(CLUSTERS)


class Held(NamedTuple):
    """A recorded time beside the model's, seconds."""

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


def _of_one_gpu(recording: Recording) -> dict[tuple[Problem, str], float]:
    alone = (row for row in recording.cluster if row.provider == ONE and row.times)
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


# ---------------------------------------------------------------- lanes


def with_lanes(every: tuple[Recording, ...]) -> list[ClusterTimeline]:
    """Recorded calls of a ring that can be drawn: one GPU was timed too, and each computed all rounds."""
    return [
        one
        for recording in every
        for one in recording.cluster_timelines
        if one.marks and one.provider in (RING, RING_SEND) and one.direction == FORWARD
        if (one.problem, one.direction) in _of_one_gpu(recording)
        if all(of.kind.count(KINDS.index(COMPUTING)) == one.gpus for of in one.marks)
    ]


def recorded_lanes(spread: Spread, every: tuple[Recording, ...]) -> tuple[Lanes, ...]:
    """The rings that were recorded for a spread problem, as runs; none where there is no such recording."""
    runs = []
    for recording in every:
        for one in with_lanes((recording,)):
            if (one.problem, one.gpus) == (spread.problem, spread.gpus):
                own = spread.by(one.provider)
                marks = tuple(mark for gpu, of in enumerate(one.marks) for mark in _marks(own, gpu, of))
                seconds, alone = max(mark.end for mark in marks), _of_one_gpu(recording)
                told = recording.origin, alone[one.problem, one.direction]
                runs.append(Lanes(own, own.order, marks, seconds, False, *told))
    return tuple(runs)


def recorded_links(spread: Spread, every: tuple[Recording, ...]) -> list[tuple[ClusterTimeline, str]]:
    """The calls recorded for a spread problem of which is known what each GPU sent, and where from."""
    return [
        (one, recording.origin)
        for recording in every
        for one in recording.cluster_timelines
        if (one.problem, one.gpus) == (spread.problem, spread.gpus) and one.interval
    ]


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
