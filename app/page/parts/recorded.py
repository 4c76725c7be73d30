"""What a page shows of a recording: curves over the length, times beside the model, block sizes."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app.elements import chart, fold, one_of
from app.figures import speed as figures
from app.figures.algorithms import implementation, kernel
from app.figures.base import Figure
from app.figures.colours import Palette
from app.figures.recorded import heat_grid
from app.figures.tables import records, scrolled
from app.figures.units import seconds_text, short
from engine.experiment import Experiment
from engine.problem.cache import kept_with
from engine.problem.flops import BACKWARD_FLOPS
from engine.problem.hardware import gpu_named
from engine.recordings import rows as timed
from engine.recordings.recording import Recording
from engine.recordings.timing import Timing

LAST_TILES = (
    "Without a mask the kernel of FlashAttention-3 shares out its last tiles among all SMs from d = 128 on, "
    "where that pays. The model does not, so a last round in which few SMs work takes it longer: up to 3% "
    "after fifteen full rounds, a quarter and more after one."
)


def curves(recording: Recording, experiment: Experiment, metric: str, colours: Palette) -> None:
    """Everyone that was timed over the length, at the recorded shape nearest to the scenario."""
    shape = timed.nearest_shape(recording, experiment)
    if shape is None:
        return
    alike = (row for row in recording.timings if (row.problem.head_dim, row.problem.mask.causal) == shape)
    direction = one_of("Direction", [*dict.fromkeys(row.direction for row in alike)], "recorded_direction")
    title, figure, caption = _curves(recording, shape, direction, metric, colours)
    st.markdown(title)
    chart(figure, "Recorded speed over N", "recorded curves")
    st.caption(caption)
    fold("recorded numbers", partial(_numbers, recording, shape, direction), "Recorded numbers")


@kept_with(16)
def _curves(
    recording: Recording, shape: tuple[int, bool], direction: str, metric: str, colours: Palette
) -> tuple[str, Figure, str]:
    """Title, chart and caption of the curves, which no slider changes but by another shape."""
    timings = timed.timings_of(recording, *shape, direction)
    rows = timed.recorded_rows(timings)
    gpu = gpu_named(recording.device.gpu)
    model = timed.modelled_timings(timings, gpu.key) if gpu and direction == timed.FORWARD else ()
    lengths = sorted({row.problem.seq_kv for row in timings})
    groups = ((figures.MODELLED, model), (recording.origin, rows))
    figure = figures.speed_by_length(groups, metric, lengths, colours, linear=metric == "tflops")
    conventions = _conventions(direction, model, [] if metric == "speedup" else rows)
    found = _findings(timings, rows, timed.artefacts(recording))
    over = _speed_up_over(timings) if metric == "speedup" else ""
    versions = ", ".join(f"{name} {version}" for name, version in recording.device.versions.items())
    driver = f"Driver {recording.device.driver}, {versions}."
    told = [*found, over, commits_text(recording, timings), driver, *conventions]
    title = f"**{recording.heading}**: {shape_text(timings, direction)}"
    return title, figure, " ".join(filter(None, told))


def _numbers(recording: Recording, shape: tuple[int, bool], direction: str) -> None:
    rows = [_timing_cells(row) for row in timed.timings_of(recording, *shape, direction)]
    st.html(scrolled(records(rows, "Recorded times"), 330))


def _timing_cells(row: Timing) -> dict[str, str]:
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


def _findings(timings: Sequence[Timing], rows: list[dict], spurious: Sequence[Timing]) -> list[str]:
    """What to see in the curves: who overtakes whom, and what ran out of memory."""
    sentences = []
    for name in ("flash2", "flash3"):
        if keys := timed.overtaking_length(rows, name):
            sentences.append(f"{kernel(name)} is faster than unfused PyTorch from N = {keys:,}.")
    for row in timed.out_of_memory([row for row in timings if row not in spurious]):
        label = implementation({"provider": row.provider, "label": row.label})
        sentences.append(f"{label} runs out of memory at N = {row.problem.seq_kv:,}.")
    for row in (row for row in spurious if row in timings):
        label = implementation({"provider": row.provider, "label": row.label})
        sentences.append(
            f"At N = {row.problem.seq_kv:,} {label} is recorded as out of memory, which is an artefact of "
            "that run: with the other mask, which needs as much memory, it was timed."
        )
    return sentences


def _speed_up_over(timings: Sequence[Timing]) -> str:
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
    counts = list(timed.timings_by_commit(recording, timings).items())
    if len(counts) < 2:
        return ""
    first, *others = counts
    also = " and ".join(f"{count} at {commit[:7]}" for commit, count in others)
    return (
        f"{first[1]} of these times were recorded at commit {first[0][:7]}, {also}. Times of different "
        "commits are of different runs, whose clocks can differ."
    )


def _conventions(direction: str, model: Sequence[dict], banded: Sequence[dict]) -> list[str]:
    """What dotted lines and bands are, where there are any, and what counts as FLOPs of a backward pass."""
    rows, keys = timed.MODEL_BLOCKS
    dotted = (
        "Dotted lines are modelled for this shape: Flash 2 and Flash 3 in the blocks that their kernels take "
        f"by themselves, the others with blocks of {rows} × {keys}. {LAST_TILES}"
    )
    backward = f"FLOPs of a backward pass count as {BACKWARD_FLOPS:g} times those of the forward pass."
    wide = figures.has_band(banded)
    bands = "Bands span the 20th to the 80th percentile."
    return [dotted] * bool(model) + [bands] * wide + [backward] * (direction == timed.BACKWARD)


def blocks(recording: Recording, experiment: Experiment, colours: Palette) -> None:
    """The recorded time of every block size, with why the others did not run."""
    algorithm = experiment.algorithm
    problem = timed.swept_problem(recording, experiment)
    if problem is None:
        return
    st.markdown(
        f"**Block sizes**: {kernel(algorithm)}, N = {problem.seq_kv:,}, batch {problem.batch}, "
        f"d = {problem.head_dim}, {recording.origin}"
    )
    shape, tiling = (problem.head_dim, problem.mask.causal), experiment.tiling
    best = timed.best_by_blocks(recording, algorithm, *shape)
    st.html(heat_grid(best, (tiling.block_q, tiling.block_kv), colours))
    fastest = "None of them ran."
    if ran := [row for row in best.values() if row.times]:
        row = min(ran, key=lambda row: row.times.p50)
        fastest = (
            "Each size is timed with its best number of warps and stages; the fastest is "
            f"{row.block_q} × {row.block_kv} at {row.tflops:,.0f} TFLOP/s."
        )
    st.caption(f"{fastest} Crossed-out sizes did not run; point at one to read why.")
