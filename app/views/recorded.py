"""What a page shows of a recording: curves over the length, times beside the model, block sizes, counters."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.figures import speed as figures
from app.figures.base import CONFIG
from app.figures.colours import Palette
from app.figures.recorded import heat_grid
from engine.comparison import gpu_named
from engine.experiment import Experiment
from engine.recorded import (
    FORWARD,
    counted,
    modelled_like,
    nearest,
    overtakes,
    ran_out,
    recorded_rows,
    timings_of,
)
from engine.recording import HeatMap, Recording

DIRECTIONS = {FORWARD: "forward", "backward": "backward"}


def curves(recording: Recording, experiment: Experiment, metric: str, colours: Palette) -> None:
    """Everyone that was timed over the length, at the recorded shape nearest to the scenario."""
    shape = nearest(recording, experiment)
    if shape is None:
        return
    directions = list(dict.fromkeys(row.direction for row in recording.timings))
    words, chooser = st.columns([3, 1.2])
    direction = FORWARD
    if len(directions) > 1:
        with chooser:
            direction = st.segmented_control(
                "Direction",
                directions,
                default=directions[0],
                required=True,
                key="recorded_direction",
                label_visibility="collapsed",
            )
    timings = timings_of(recording, *shape, direction)
    rows = recorded_rows(timings)
    words.markdown(f"**{recording.origin[:1].upper()}{recording.origin[1:]}**: {_shape(shape, direction)}")
    gpu = gpu_named(recording.device.gpu)
    model = modelled_like(timings, experiment, gpu.key) if gpu and direction == FORWARD else []
    lengths = sorted({row.problem.seq_kv for row in timings})
    groups = ((figures.MODELLED, model), (recording.origin, rows))
    figure = figures.over_length(groups, metric, lengths, colours, linear=metric == "tflops")
    st.plotly_chart(figure, theme=None, config=CONFIG, key="recorded curves", alt="Recorded speed over N")
    st.caption(" ".join([*_findings(timings, rows), _versions(recording)]))


def _shape(shape: tuple[int, bool], direction: str) -> str:
    head_dim, causal = shape
    mask = "causal" if causal else "no mask"
    return f"{direction}, d = {head_dim}, {mask}, float16; 16k tokens in all, hidden 2048"


def _findings(timings, rows: list[dict]) -> list[str]:
    """What to see in the curves: who overtakes whom, and what ran out of memory."""
    sentences = []
    for name in ("flash2", "flash3"):
        label = figures.LABELS[name]
        if keys := overtakes(rows, name):
            sentences.append(f"{label} is faster than unfused PyTorch from N = {keys:,}.")
    sentences += [f"{label} runs out of memory at N = {keys:,}." for label, keys in ran_out(timings)]
    return sentences


def _versions(recording: Recording) -> str:
    device = recording.device
    versions = ", ".join(f"{name} {version}" for name, version in device.versions.items())
    return f"Driver {device.driver}, {versions}. Dotted: modelled for this shape with the scenario's blocks."


def compared(recording: Recording) -> list[dict]:
    """Recorded times of kernels whose blocks are known, with the modelled ones, as a figure takes them."""
    return [
        {
            "provider": one.experiment.algorithm,
            "label": one.experiment.algorithm,
            "p50": one.seconds,
            "modelled": one.modelled_seconds,
            "origin": recording.origin,
            "what": one.what,
        }
        for one in counted(recording)
    ]


def blocks(recording: Recording, experiment: Experiment, colours: Palette) -> None:
    """The recorded time of every block size, with why the others did not run."""
    algorithm = experiment.algorithm
    shapes = sorted(
        {row.problem.head_dim for row in recording.sweep if row.algorithm == algorithm},
        key=lambda head_dim: abs(head_dim - experiment.problem.head_dim),
    )
    if not shapes:
        return
    problem = next(row.problem for row in recording.sweep if row.problem.head_dim == shapes[0])
    st.markdown(
        f"**Block sizes**: {figures.LABELS[algorithm]}, N = {problem.seq_kv:,}, batch {problem.batch}, "
        f"d = {shapes[0]}, {recording.origin}"
    )
    heat = recording.heat_map(algorithm, shapes[0])
    tiling = experiment.tiling
    st.html(heat_grid(heat, (tiling.block_q, tiling.block_kv), colours))
    st.caption(f"{_fastest(heat)} Struck out: did not run; point at it to read why.")


def _fastest(heat: HeatMap) -> str:
    if np.isnan(heat.seconds).all():
        return "None of them ran."
    i, j = np.unravel_index(np.nanargmin(heat.seconds), heat.seconds.shape)
    size = f"{heat.block_q[i]} × {heat.block_kv[j]}"
    return f"Best warps and stages of each; the fastest is {size} at {heat.tflops[i, j]:,.0f} TFLOP/s."
