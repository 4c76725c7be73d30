"""What a page shows of a recording: curves over the length, times beside the model, block sizes."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app.elements import fold, numbers, one_of, plot
from app.figures import speed as figures
from app.figures.algorithms import kernel
from app.figures.base import Figure
from app.figures.colours import Palette
from app.figures.recorded import heat_grid
from app.figures.units import seconds_text, short
from engine.experiment import Experiment
from engine.problem.cache import kept_with
from engine.problem.flops import BACKWARD_FLOPS
from engine.problem.hardware import gpu_named
from engine.recordings import rows as timed
from engine.recordings.recording import Recording
from engine.recordings.timing import Timing

LAST_TILES = (
    "Without a mask the kernel of FlashAttention-3 shares out its last tiles among all SMs from d = 128 on. "
    "The model does not, so a last round in which few SMs work takes it longer."
)


def curves(recording: Recording, experiment: Experiment, metric: str, colours: Palette) -> None:
    """Everyone that was timed over the length, at the recorded shape nearest to the scenario."""
    shape = timed.nearest_shape(recording, experiment)
    if shape is None:
        return
    alike = (row for row in recording.timings if (row.problem.head_dim, row.problem.mask.causal) == shape)
    direction = one_of("Direction", [*dict.fromkeys(row.direction for row in alike)], "recorded_direction")
    after, figure, caption = _curves(recording, shape, direction, metric, colours)
    told = {"alt": "Recorded speed over N", "key": "recorded curves"}
    plot(recording.heading, figure, caption, after=f": {after}", **told)
    fold("recorded numbers", partial(_numbers, recording, shape, direction), "Recorded numbers")


@kept_with(16)
def _curves(
    recording: Recording, shape: tuple[int, bool], direction: str, metric: str, colours: Palette
) -> tuple[str, Figure, str]:
    """What was timed, chart and caption of the curves, which no slider changes but by another shape."""
    timings = timed.timings_of(recording, *shape, direction)
    rows, gpu = timed.recorded_rows(timings), gpu_named(recording.device.gpu)
    model = timed.modelled_timings(timings, gpu.key) if gpu and direction == timed.FORWARD else ()
    lengths = sorted({row.problem.seq_kv for row in timings})
    groups = ((figures.MODELLED, model), (recording.origin, rows))
    figure = figures.speed_by_length(groups, metric, lengths, colours, linear=metric == "tflops")
    versions = ", ".join(f"{name} {version}" for name, version in recording.device.versions.items())
    told = [speed_up_over(timings)] * (metric == "speedup")
    told += [commits_text(recording, timings), f"Driver {recording.device.driver}, {versions}."]
    if model:
        blocks = "blocks of {} × {}".format(*timed.MODEL_BLOCKS)
        told.append(
            "Dotted lines are modelled for this shape: Flash 2 and Flash 3 in the blocks that their kernels "
            f"take by themselves, the others with {blocks}. {LAST_TILES}"
        )
    if metric != "speedup" and figures.has_band(rows):
        told.append("Bands span the 20th to the 80th percentile.")
    if direction == timed.BACKWARD:
        told.append(f"FLOPs of a backward pass count as {BACKWARD_FLOPS:g} times those of the forward pass.")
    return shape_text(timings, direction), figure, " ".join(filter(None, told))


def _numbers(recording: Recording, shape: tuple[int, bool], direction: str) -> None:
    rows = [cells(row) for row in timed.timings_of(recording, *shape, direction)]
    numbers(rows, "Recorded times", words=(0, 9), height=330)


def cells(row: Timing) -> dict[str, str]:
    """A recorded row's figures with units, or why it has none."""
    start = {"implementation": row.label, "N": f"{row.problem.seq_kv:,}"}
    if row.times is None:
        return start | {"note": row.skipped}
    times = {"p20": row.times.p20, "median": row.times.p50, "p80": row.times.p80}
    errors = {"error to float64": row.error, "allowed": row.allowed}
    return {
        **start,
        **{name: seconds_text(seconds) for name, seconds in times.items()},
        "median, alone": seconds_text(row.alone.p50) if row.alone else "",
        "rate": f"{row.tflops:,.1f} TFLOP/s",
        **{name: "" if error is None else f"{error:.1e}" for name, error in errors.items()},
        "note": f"commit {row.commit[:7]}" if row.commit else "",
    }


def shape_text(timings: Sequence[Timing], direction: str) -> str:
    """What was timed: everything but the length, and how much work there is at each."""
    problem = timings[0].problem
    tokens, most = timed.tokens_of(timings)
    longer = ", more where one sequence is longer" if most > tokens else ""
    return (
        f"{direction}, d = {problem.head_dim}, {problem.mask.text}, {problem.dtype}; "
        f"{short(tokens)} tokens in all{longer}, hidden size {problem.hidden_size:,}"
    )


def speed_up_over(timings: Sequence[Timing]) -> str:
    """What speed-ups are over, where it is not unfused attention."""
    over = timed.baseline(timings)
    if over == timed.BASELINE:
        return ""
    if over is None:
        return "Nothing was recorded here that a speed-up could be over: choose time or FLOP/s."
    label = next(row.label for row in timings if row.provider == over)
    return f"Speed-ups in this chart are over {label}: unfused attention was not recorded here."


def commits_text(recording: Recording, timings: Sequence[Timing]) -> str:
    """That timings were recorded at more than one commit, where they were: each has a run of its own."""
    counts = timed.timings_by_commit(recording, timings).items()
    told = " and ".join(f"{count} at commit {commit[:7]}" for commit, count in counts)
    return f"Times of different runs, whose clocks can differ: {told}." * (len(counts) > 1)


def blocks(recording: Recording, experiment: Experiment, colours: Palette) -> None:
    """The recorded time of every block size, with why the others did not run."""
    problem = timed.swept_problem(recording, experiment)
    if problem is None:
        return
    st.markdown(
        f"**Block sizes**: {kernel(experiment.algorithm)}, N = {problem.seq_kv:,}, batch {problem.batch}, "
        f"d = {problem.head_dim}, {recording.origin}"
    )
    shape, tiling = (problem.head_dim, problem.mask.causal), experiment.tiling
    best = timed.best_by_blocks(recording, experiment.algorithm, *shape)
    st.html(heat_grid(best, (tiling.block_q, tiling.block_kv), colours))
    fastest = "None of them ran."
    if ran := [row for row in best.values() if row.times]:
        row = min(ran, key=lambda row: row.times.p50)
        fastest = (
            "Each size is timed with its best number of warps and stages; the fastest is "
            f"{row.block_q} × {row.block_kv} at {row.tflops:,.0f} TFLOP/s."
        )
    st.caption(f"{fastest} Crossed-out sizes did not run; point at one to read why.")
