"""Attention in FP8 as recorded: how fast it is, and how far off."""

from collections.abc import Sequence

import streamlit as st

from app.elements import chart, numbers
from app.figures import flash3 as figures
from app.figures.units import digits, ratio_text, seconds_text, share_text, short
from app.scenario import theme
from engine.experiment import Experiment
from engine.recordings.recording import Recording
from engine.recordings.timing import Fp8Timing
from engine.studies.fp8 import SCALED, fp8_worth, head_errors, recorded_fp8

COLUMNS = ("numbers", "inputs", "recorded", "rate", "× float16", "error of O")
WORDS = (
    "FP8 (e4m3) doubles the rate of the tensor cores but keeps only three bits of each number's fraction, so "
    "it rounds by up to 6%, and an outlier by a step as large as many other numbers. A scale per block fits "
    "each block's own range. Rotating Q and K before they are rounded spreads an outlier over all columns "
    "and leaves Q Kᵀ as it was. Half of the weights are made from their logarithms, rounded by up to 8%, "
    "which spares their exponentials."
)


def show(recording: Recording | None, experiment: Experiment) -> None:
    """How fast attention in FP8 is and how far off, as recorded."""
    st.markdown(WORDS)
    errors = head_errors(experiment)
    cells = [[name, *(share_text(each, 2) for each in found.values())] for name, found in errors.items()]
    numbers(("numbers", *SCALED), cells, "Error of O in FP8 on this scenario's head")
    st.caption(
        "Computed here, on up to 256 rows and 512 keys of the scenario's first head under its mask, beside "
        "normal numbers of its shape, without and with outliers: Q, K, V and the weights are rounded to "
        "E4M3, and nothing else. Choose a sentence as Numbers to see real heads."
    )
    rows = recorded_fp8(recording, experiment)
    if not rows:
        st.caption("The recording that is chosen has no attention in FP8, so there is nothing to draw.")
        return
    problem, commits = rows[0].problem, sorted({row.commit[:7] for row in rows if row.commit})
    st.markdown(
        f"**{recording.heading}**: N = {short(problem.seq_kv)}, batch {problem.batch}, {problem.heads} "
        f"heads, d = {problem.head_dim}, {problem.mask.text}"
    )
    drawing, beside = st.columns([1, 1.15], gap="large")
    with drawing:
        figure = figures.error_by_speed(rows, recording.origin, theme.colours())
        chart(figure, "Error of O over TFLOP/s, FP8 beside float16", "fp8")
    with beside:
        numbers(COLUMNS, _cells(rows), "Attention in FP8", words=(0, 1), height=330)
    st.caption(f"{_worth(rows)}{_origin(commits)}")


def _cells(rows: Sequence[Fp8Timing]) -> list[list[str]]:
    usual = {row.inputs: row.times.p50 for row in rows if row.numbers == "float16"}
    return [
        [
            figures.NAMES[row.numbers],
            figures.INPUTS[row.inputs][0],
            seconds_text(row.times.p50),
            f"{row.tflops:,.0f} TFLOP/s",
            ratio_text(usual[row.inputs], row.times.p50) if row.inputs in usual else "",
            share_text(row.relative_error, 2),
        ]
        for row in rows
    ]


def _worth(rows: Sequence[Fp8Timing]) -> str:
    """What to notice first."""
    if (worth := fp8_worth(rows)) is None:
        return ""
    faster, closer = map(digits, worth)
    return (
        f"With scales by block and the rotation, FP8 runs at {faster} times float16's speed, and with "
        f"outliers its error is {closer} times smaller than with one scale per tensor. "
    )


def _origin(commits: Sequence[str]) -> str:
    """What the marks are, and where they come from."""
    of = f" These rows were recorded at commit {' and '.join(commits)}." if commits else ""
    return (
        "Every mark is recorded: the median time of a call, quantising included, timed in turns with "
        "FlashAttention-3 in float16; and the root mean square of the difference to float64 over that of O. "
        "Inputs are normal, or as in FlashAttention-3's paper normal with one number in a thousand from a "
        f"distribution ten times as wide.{of}"
    )
