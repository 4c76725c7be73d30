"""Calls whose bytes over time are to be drawn: the recorded ones nearest to a scenario, with what did the same."""

from dataclasses import dataclass

from engine.algorithms import ALGORITHMS, FORWARD, flash1, standard
from engine.experiment import Experiment, ExperimentError
from engine.model.launch import launch
from engine.problem.gpu import Gpu
from engine.problem.hardware import gpu_named
from engine.recordings.file import is_of, recordings
from engine.recordings.rows import experiment_of
from engine.recordings.samples import Samples, nearest_samples
from engine.schedule.step import Operation, Tensor
from engine.studies.hbm_over_time import Flow, modelled_flow

Moved = tuple[Tensor, ...]


@dataclass(frozen=True)
class SampledCall:
    """A call as a chip sampled it, recorded or measured here.

    Attributes:
        row: what was sampled.
        origin: whose it is and of when, in words.
        gpu: whose memory sets the scale.
        flow: the same as the model has it, in the row's intervals; None where it has none.
    """

    row: Samples
    origin: str
    gpu: Gpu
    flow: Flow | None = None

    @property
    def experiment(self) -> Experiment | None:
        """The call as a scenario of the model; None where it is of nothing that the model knows."""
        row = self.row
        if row.provider not in ALGORITHMS or row.direction != FORWARD or row.numbers != Samples.numbers:
            return None
        try:
            found = experiment_of(row.problem, row.provider, row.block_q, row.block_kv, self.gpu.key)
            found = found if row.block_q else found.in_own_tiling()
            return found.changed(splits=row.splits) if row.splits else found
        except ExperimentError:
            return None

    @property
    def kernels(self) -> list[tuple[int, int, Moved, Moved]]:
        """Of each: its first interval and the one after its last, and the tensors that it loads and stores."""
        found, spans = self.experiment, self.row.kernels
        phases = [each.phase for each in launch(found).kernels] if found else []
        if len(phases) != len(spans):
            return [(*span, (), ()) for span in spans]
        moved = [
            tuple(
                dict.fromkeys(step.tensor for step in (*p.before, *p.each, *p.after) if step.operation == way)
            )
            for p in phases
            for way in (Operation.LOAD, Operation.STORE)
        ]
        return [(*span, *moved[2 * n : 2 * n + 2]) for n, span in enumerate(spans)]


def sampled_calls(experiment: Experiment) -> tuple[SampledCall, ...]:
    """The recorded calls to draw for a scenario, in the algorithms' order; none where none was sampled.

    One is of its algorithm, and the others did the same work.
    """
    sampled = [one for one in recordings() if any(row.read for row in one.samples)]
    recording = next((one for one in sampled if is_of(one, experiment.hardware)), next(iter(sampled), None))
    if recording is None:
        return ()
    found = nearest_samples(recording.samples, experiment) or nearest_samples(
        recording.samples, experiment, standard.ALGORITHM.key
    )
    if found is None:
        return ()
    own, gpu = found[0], gpu_named(recording.device.gpu)
    like = {row.provider: row for row in recording.samples if row.read and _work(row) == _work(own)}
    if own.provider != flash1.ALGORITHM.key:  # with few heads it lasts so long that the others were too short
        like.pop(flash1.ALGORITHM.key, None)
    return tuple(SampledCall(like[key], recording.origin, gpu) for key in ALGORITHMS if key in like)


def _work(row: Samples) -> tuple:
    """What two calls have alike that did the same."""
    return row.problem, row.direction, row.numbers, row.cold
