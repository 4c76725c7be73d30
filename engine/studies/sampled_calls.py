"""Calls whose bytes over time are drawn: the recorded one nearest to a scenario, with its like."""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from engine.algorithms import ALGORITHMS, FORWARD, backward, flash1, standard
from engine.experiment import Experiment, ExperimentError
from engine.model.launch import launch
from engine.model.timeline import MODELLED, Timeline, TimelineError
from engine.problem.gpu import Gpu
from engine.problem.hardware import gpu_named
from engine.recordings.file import is_of, recordings
from engine.recordings.rows import BACKWARD_PROVIDER, experiment_of
from engine.recordings.samples import SECTOR, Samples, nearest_samples
from engine.recordings.timelines import recorded_timeline
from engine.schedule.step import Operation, Tensor
from engine.studies.hbm_over_time import Flow, modelled_flow

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
