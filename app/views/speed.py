"""The Speed page: measured on this machine when asked, beside the modelled time of the chosen GPU."""

from __future__ import annotations

import streamlit as st

from app import scenario, theme, working
from app.figures import roofline as roofs
from app.figures import speed as figures
from app.figures.base import CONFIG
from app.figures.units import scaled, seconds_text
from engine.comparison import measured_rows, modelled_rows, pairs, same_machine, under_roof
from engine.experiment import Experiment
from engine.measure import SWEEP, sweep_payload
from engine.roofline import roofline
from engine.survey import over_length
from engine.worker import Job

METRICS = {"p50": "time", "tflops": "FLOP/s", "tokens_per_second": "tokens/s", "speedup": "speed-up"}
MEANINGS = {
    "p50": "median time of a call",
    "tflops": "4·B·H·N²·d FLOPs, halved when causal, over the median time",
    "tokens_per_second": "queries over the median time",
    "speedup": "measured: over PyTorch's unfused attention; modelled: over the standard algorithm",
}


def show() -> None:
    """Draw the page."""
    experiment = scenario.current()
    st.header(
        "Real kernels run on this server when you press Measure, each held against float64 before its time "
        "counts. Look at how unfused attention falls behind as N grows.",
        anchor=False,
    )
    working.panel(
        SWEEP, sweep_payload(experiment), "Measure on this machine", lambda job: _draw(experiment, job)
    )


def _draw(experiment: Experiment, job: Job | None) -> None:
    rows = list(job.result or job.rows) if job is not None else []
    measured, colours = measured_rows(rows), theme.colours()
    survey = over_length(experiment)
    lengths = _lengths(experiment, measured)
    modelled = [row for row in modelled_rows(survey) if row["keys"] <= lengths[-1]]
    st.markdown(_origins(experiment, measured))
    line, roof, versus = st.columns([1.5, 1.1, 1], gap="medium")
    with line:
        metric = st.segmented_control(
            "Metric",
            list(METRICS),
            format_func=METRICS.get,
            default="p50",
            required=True,
            key="speed_metric",
            label_visibility="collapsed",
        )
        _chart(figures.over_length(measured, modelled, metric, lengths, colours), "Speed over the length")
        st.caption(MEANINGS[metric])
    with roof:
        st.markdown(f"**Roofline** of the {experiment.gpu.name}, {experiment.problem.dtype}")
        points = under_roof(experiment, measured)
        model = under_roof(experiment, modelled)
        shape = roofline(experiment.gpu, experiment.problem.dtype)
        _chart(roofs.roofline(shape, experiment.gpu.name, model, points, colours), "Roofline")
    with versus:
        st.markdown("**Measured against modelled**, seconds")
        _chart(figures.against(pairs(experiment, measured), colours), "Measured against modelled")
    if rows:
        st.dataframe(_table(rows), hide_index=True, height=260)


def _lengths(experiment: Experiment, measured: list[dict]) -> list[int]:
    """From the shortest to the longest that is shown."""
    longest = max([2048, experiment.problem.seq_kv, *(row["keys"] for row in measured)])
    return [2**power for power in range(6, (longest - 1).bit_length() + 1)]


def _origins(experiment: Experiment, measured: list[dict]) -> str:
    """What was measured where and what is modelled of what, so that nothing is compared silently."""
    model = f"Dotted: *modelled* for the {experiment.gpu.name}."
    if not measured:
        return f"{model} Nothing has been measured here for this scenario yet."
    row = measured[0]
    versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
    here = f"Lines with marks: *measured here* on {row['device']} ({versions}; {row['date'][:16]} UTC)."
    if same_machine(experiment.gpu, row):
        return f"{here} {model}"
    other = "a CPU" if not row["cuda"] else "another GPU"
    interpreted = " Triton's rows are interpreted: for correctness, not speed." if not row["cuda"] else ""
    return f"{here} {model} **These are two machines: this one is {other}.**{interpreted}"


def _table(rows: list[dict]) -> list[dict]:
    """Every row, its figures with units, or why it has none."""
    return [_cells(row) for row in reversed(rows)]


def _cells(row: dict) -> dict:
    cells = {"N": row["keys"], "implementation": figures.LABELS[row["provider"]]}
    if row["skipped"]:
        return {**cells, "note": f"skipped: {row['skipped']}"}
    return {
        **cells,
        "median": seconds_text(row["p50"]),
        "p20": seconds_text(row["p20"]),
        "p80": seconds_text(row["p80"]),
        "repeats": row["repeats"],
        "FLOP/s": scaled(row["tflops"] * 1e12, "FLOP/s"),
        "tokens/s": figures.tokens_text(row["tokens_per_second"]),
        "error to float64": f"{row['error']:.1e}",
        "allowed": f"{row['allowed']:.1e}",
        "note": row["note"],
    }


def _chart(figure, alt: str) -> None:
    st.plotly_chart(figure, theme=None, config=CONFIG, key=alt, alt=alt)
