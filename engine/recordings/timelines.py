"""Recorded blocks as timelines, the type that simulated ones have too."""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from engine.algorithms import ALGORITHMS
from engine.experiment import Experiment, ExperimentError, described
from engine.model.launch import ORDERS, launch
from engine.model.simulated_timeline import check_blocks
from engine.model.timeline import MOST_SMS, Timeline, TimelineError, most_at_once
from engine.problem.hardware import gpu_named
from engine.recordings.nearest import MASK, SIZES, WIDTH, all_heads, doublings, length, nearest
from engine.recordings.recording import Recording, TracedCall
from engine.recordings.rows import experiment_of

NEAR = 2  # doublings of length and heads together
_far = doublings(length, all_heads)
LONGEST_TICK = 1e-3  # seconds
MOST_TICKS = 10**12


def timelines(recording: Recording) -> tuple[Timeline, ...]:
    """Its traced calls; on a GPU without a preset the experiment's hardware is the default one."""
    hardware = hardware_of(recording)
    return tuple(timeline_of(row, recording.origin, hardware) for row in traced_calls(recording))


def hardware_of(recording: Recording) -> str:
    """The preset of its GPU, or the default one."""
    gpu = gpu_named(recording.device.gpu)
    return gpu.key if gpu else Experiment().hardware


def timeline_of(row: TracedCall, origin: str, hardware: str) -> Timeline:
    """The timeline of a traced call; raises TimelineError where its blocks are not those of its problem."""
    experiment = _experiment(row, hardware)
    run = launch(experiment)
    names = tuple(each.phase.name for each in run.kernels)
    check_blocks(run.blocks)
    if tuple(kernel.name for kernel in row.kernels) != names:
        raise TimelineError(f"the kernels of {row.provider} must be {', '.join(names)}")
    for grid, kernel in zip(run.kernels, row.kernels, strict=True):
        if {len(kernel.sm), len(kernel.start), len(kernel.length)} != {grid.blocks}:
            raise TimelineError(
                f"{kernel.name} must have {grid.blocks:,} blocks, each with SM, start and length"
            )
    kernel = np.repeat(np.arange(len(names)), [each.blocks for each in run.kernels])
    sm, start, length = (
        np.concatenate([np.array(getattr(each, column), np.float64) for each in row.kernels])
        for column in ("sm", "start", "length")
    )
    start = np.concatenate([np.cumsum(each.start) for each in row.kernels]) * row.tick
    if (sm < 0).any() or (sm >= row.sms).any():
        raise TimelineError(f"a timeline's SMs must be from 0 to {row.sms - 1}")
    end = start + length * row.tick
    resident = most_at_once(len(names), kernel, sm.astype(np.int64), start, end)
    names_of = (each.names(row.order, run.schedule) for each in run.kernels)
    named = (np.concatenate(column) for column in zip(*names_of, strict=True))
    return Timeline(experiment, origin, row.order, names, row.sms, resident, kernel, sm, start, end, *named)


def traced_fault(row: TracedCall) -> str | None:
    """What is wrong with a traced call whose fields each have the right type, in words."""
    traced = [key for key, record in ALGORITHMS.items() if record.traced]
    if row.provider not in traced or row.order not in ORDERS:
        return f"must be of {', '.join(traced)}, in the order {' or '.join(ORDERS)}"
    if row.skipped is not None:
        return None
    if not 0 < row.sms <= MOST_SMS or not 0 < row.tick <= LONGEST_TICK:
        return f"must have 1 to {MOST_SMS:,} SMs and a tick of at most {LONGEST_TICK} s"
    if any(abs(value) > MOST_TICKS for kernel in row.kernels for value in (*kernel.start, *kernel.length)):
        return f"must have starts and lengths of at most {MOST_TICKS:,} ticks"
    try:
        timeline = timeline_of(row, "", Experiment().hardware)
        if row.times is None and row.order == launch(timeline.experiment).order:
            return "must have the times of the call without the trace"
    except (TimelineError, ExperimentError) as error:
        return f"is not a timeline: {error}"
    return None


def traced_calls(recording: Recording) -> list[TracedCall]:
    """Its traced calls that ran."""
    return [row for row in recording.timelines if row.kernels]


def nearest_call(rows: Sequence[TracedCall], experiment: Experiment) -> TracedCall | None:
    """The traced call closest to an experiment: of its algorithm and mask first, then of its size."""
    own = [row for row in rows if row.provider == experiment.algorithm] or rows
    return nearest(own, experiment, MASK, WIDTH, SIZES)


def tells_of(recording: Recording, call: TracedCall, experiment: Experiment) -> bool:
    """Whether a traced call is near enough to a scenario to stand for it.

    It is of its GPU, algorithm, kind of mask and head dimension, and its length and heads are no more than
    two doublings away.
    """
    gpu, problem = gpu_named(recording.device.gpu), experiment.problem
    alike = gpu is not None and gpu.key == experiment.hardware and call.provider == experiment.algorithm
    square = problem.seq_q == problem.seq_kv
    return (
        alike
        and square
        and not MASK(call, experiment) + WIDTH(call, experiment)
        and _far(call, experiment) <= NEAR
    )


def recorded_timeline(
    shelf: Sequence[Recording], experiment: Experiment, order: str | None = None
) -> Timeline:
    """What a GPU of the experiment's preset ran, by default in the kernel's own order.

    Raises TimelineError, which names the nearest there is, where no recording has this very call.
    """
    order = launch(experiment).order if order is None else order
    calls = {
        row: recording
        for recording in shelf
        if hardware_of(recording) == experiment.hardware
        for row in traced_calls(recording)
    }
    blocks_of = attrgetter("problem", "algorithm", "tiling.block_q", "tiling.block_kv")
    for row, recording in calls.items():
        if (row.order, row.provider) != (order, experiment.algorithm):
            continue
        if blocks_of(_experiment(row, experiment.hardware)) == blocks_of(experiment):
            return timeline_of(row, recording.origin, experiment.hardware)
    closest = nearest_call(list(calls), experiment)
    if closest is None:
        raise TimelineError(f"no timeline is recorded on {experiment.gpu.with_article}")
    like = described(_experiment(closest, experiment.hardware))
    raise TimelineError(f"this is not among the {len(calls)} recorded timelines; the nearest is {like}")


def _experiment(row: TracedCall, hardware: str) -> Experiment:
    return experiment_of(row.problem, row.provider, row.block_q, row.block_kv, hardware)
