"""How far the model is from what a GPU was recorded to do: on the rows that set it, and on the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from engine.algorithms import FORWARD, offered
from engine.experiment import Experiment, ExperimentError
from engine.model.fitted import (
    COUNTED,
    DRAM,
    DRAWN,
    DRAWN_DRAM,
    DRAWN_L2,
    DRAWN_REQUESTS,
    DRAWN_TIMES,
    SWEPT,
    TIMED,
    fitted,
)
from engine.model.launch import launch
from engine.model.occupancy import WARP, threads_of, tiles_in_flight
from engine.model.simulation import simulate
from engine.problem.hardware import gpu_named
from engine.recordings.counters import recorded_counters
from engine.recordings.file import JUDGES, recordings
from engine.recordings.recording import Recording
from engine.recordings.rows import MODEL_BLOCKS, artefacts, experiment_of
from engine.recordings.timing import TilingTiming
from engine.studies.counter_gaps import excess


@dataclass(frozen=True)
class Held:
    """One recorded row beside the model of the same.

    Attributes:
        rows: which kind, see `engine.model.fitted`.
        fitted: whether constants were set on it.
        modelled, recorded: seconds; of DRAM bytes read beyond the compulsory ones; of calls drawn by lot
            seconds, all bytes read from DRAM, bytes from L2 to the SMs, or bytes that tiles request.
    """

    experiment: Experiment
    rows: str
    fitted: bool
    modelled: float
    recorded: float

    @property
    def off(self) -> float:
        """How far the model is off, as a share of what was recorded, whichever way."""
        return abs(self.modelled / self.recorded - 1)


@dataclass(frozen=True)
class ModelError:
    """The model's errors over some rows: shares of what was recorded.

    Attributes:
        algorithm: "" for all of them together.
        rows: which kind; "" for all times.
        fitted: whether constants were set on these rows.
        count: how many.
    """

    algorithm: str
    rows: str
    fitted: bool
    count: int
    median: float
    worst: float


def errors(recording: Recording) -> tuple[ModelError, ...]:
    """By algorithm, kind of rows and whether they set constants; then those of calls drawn by lot.

    Last, all of the recording's times on which none was set.
    """
    held = held_rows(recording)
    kinds = (TIMED, SWEPT, COUNTED, DRAM, *DRAWN)
    groups: dict[tuple[str, str, bool], list[Held]] = {}
    for one in sorted(held, key=lambda one: (max(kinds.index(one.rows), 2), one.experiment.record.order)):
        groups.setdefault((one.experiment.algorithm, one.rows, one.fitted), []).append(one)
    found = [_error(*group, rows) for group, rows in groups.items()]
    left_out = [one for one in held if one.rows in kinds[:3] and not one.fitted]
    return (*found, *([_error("", "", False, left_out)] if left_out else ()))


def _error(algorithm: str, rows: str, was_fitted: bool, held: list[Held]) -> ModelError:
    off = [one.off for one in held]
    return ModelError(algorithm, rows, was_fitted, len(off), median(off), max(off))


def held_rows(recording: Recording) -> tuple[Held, ...]:
    """Every forward row that has a model, simulated now; none of a GPU without a preset."""
    gpu = gpu_named(recording.device.gpu)
    if gpu is None:
        return ()
    calls = recorded_counters(recording)
    times = (
        *_timed(recording, gpu.key),
        *_swept(recording, gpu.key),
        *((one.experiment, COUNTED, one.seconds) for one in calls),
    )
    beyond = ((one.experiment, DRAM, *excess(one)) for one in calls if excess(one))
    return (
        *(_held(one, rows, simulate(one).modelled.seconds, seconds) for one, rows, seconds in times),
        *(_held(*row) for row in beyond),
        *drawn(recording.device.gpu),
    )


def drawn(gpu: str) -> tuple[Held, ...]:
    """Calls on a GPU, by its driver's name, that were drawn by lot: each by its seconds and by its bytes."""
    return tuple(one for each in _judges(gpu) for one in _drawn(each))


def newest(gpu: str) -> tuple[ModelError, ...]:
    """Of the newest set of such calls, all kernels together, an error for each of DRAWN that it has."""
    judges = max(_judges(gpu), key=lambda each: each.device.date, default=None)
    if judges is None:
        return ()
    held = _drawn(judges)
    found = ((rows, [one for one in held if one.rows == rows]) for rows in DRAWN)
    return tuple(_error("", rows, False, held) for rows, held in found if held)


def _judges(gpu: str) -> list[Recording]:
    return [each for each in recordings(JUDGES) if each.device.gpu == gpu]


def _drawn(judges: Recording) -> tuple[Held, ...]:
    calls = recorded_counters(judges)
    pairs = {
        DRAWN_TIMES: lambda one: (one.modelled_seconds, one.seconds),
        DRAWN_DRAM: lambda one: (one.modelled_dram_read, one.dram_read),
        DRAWN_L2: lambda one: (one.modelled_read, one.read),
        DRAWN_REQUESTS: lambda one: (one.modelled_asked, one.asked),
    }
    found = ((one, rows, *pair(one)) for rows, pair in pairs.items() for one in calls)
    return tuple(
        Held(one.experiment, rows, False, modelled, recorded)
        for one, rows, modelled, recorded in found
        if recorded is not None
    )


def _held(experiment: Experiment, rows: str, modelled: float, recorded: float) -> Held:
    """A row with whether it set constants."""
    row = experiment.hardware, experiment.algorithm, rows, experiment.problem.head_dim
    return Held(experiment, rows, fitted(*row), modelled, recorded)


def _timed(recording: Recording, hardware: str) -> Iterator[tuple[Experiment, str, float]]:
    """Medians in turns with others, in the kernel's own blocks or MODEL_BLOCKS."""
    spurious = artefacts(recording)
    for row in recording.timings:
        if row.provider in offered() and row.direction == FORWARD and row.times and row not in spurious:
            one = experiment_of(row.problem, row.provider, *MODEL_BLOCKS, hardware).in_own_tiling()
            yield one, TIMED, row.times.p50


def _swept(recording: Recording, hardware: str) -> Iterator[tuple[Experiment, str, float]]:
    """Of every size of blocks the kernel's own launch; the fastest where that is not there."""
    found: dict[Experiment, list[tuple[bool, float]]] = {}
    for row in recording.sweep:
        if row.algorithm in offered() and row.times:
            one = _tiled(row, hardware)
            if one is not None:
                found.setdefault(one, []).append((not _launched_so(one, row), row.times.p50))
    yield from ((one, SWEPT, min(times)[1]) for one, times in found.items())


def _launched_so(one: Experiment, row: TilingTiming) -> bool:
    """Whether a row's warps and stages are those that the model takes the kernel to choose."""
    run = launch(one)
    phase = run.kernels[0].phase
    stages = tiles_in_flight(run.algorithm, run.schedule, phase, run.gpu)
    return (row.warps, row.stages) == (threads_of(run.schedule, phase) // WARP, stages)


def _tiled(row: TilingTiming, hardware: str) -> Experiment | None:
    try:
        return experiment_of(row.problem, row.algorithm, row.block_q, row.block_kv, hardware)
    except ExperimentError:  # blocks in a stranger's file
        return None
