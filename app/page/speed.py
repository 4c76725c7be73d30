"""The Speed page: measured on this machine when asked, beside recordings of a GPU and the model."""

from functools import lru_cache

import streamlit as st

from app import scenario
from app.elements import chart, one_of
from app.figures import roofline as roofs
from app.figures import speed as figures
from app.figures.algorithms import caveats, implementation
from app.figures.colours import Palette
from app.figures.decoding import TIME
from app.figures.recorded import model_against_time
from app.figures.tables import records, scrolled
from app.figures.units import moment, scaled, seconds_text, share_text, tokens_text
from app.gallery.picture import EXAMPLE, Drawn, Picture, SiteFile
from app.gallery.without_streamlit import in_both_themes
from app.page.parts import bottleneck, decoded, gains, live, model_errors, recorded, two_gpus
from app.page.parts.job import job_panel
from app.scenario import theme
from app.sidebar.recording import chosen_recording
from app.tour.file import PICTURES
from engine.experiment import Experiment
from engine.measuring.measure import SWEEP, sweep_payload
from engine.problem.hardware import same_machine
from engine.recordings.file import recording_of, recordings
from engine.recordings.rows import nearest_shape, recorded_rows, timings_of
from engine.studies.comparison import (
    HERE,
    measured_rows,
    modelled_rows,
    pairs,
    recorded_pairs,
    roofline,
    under_roof,
)
from engine.studies.decoding import decoding_of
from engine.studies.gains import fused_of, modelled_gain, products_share
from engine.studies.survey import by_length, side_by_side
from engine.worker.client import Job

METRICS = {"speedup": "speed-up", "p50": "time", "tflops": "FLOP/s", "tokens_per_second": "tokens/s"}
MEANINGS = {
    "p50": "The time is the median of the calls.",
    "tflops": (
        "FLOP/s are 4·B·H·N²·d FLOPs, halved when causal, over the median time; with a window, documents or "
        "other lengths, 4·d FLOPs count for each pair of a query and a key that it sees."
    ),
    "tokens_per_second": "Tokens/s are queries over the median time.",
    "speedup": "Measured speed-ups are over PyTorch's unfused attention, modelled ones over the standard "
    "algorithm.",
}
LONGEST = 65536  # keys of the axis, unless something longer is shown


def show() -> None:
    """Draw the page."""
    experiment = scenario.current()
    st.header(_headline(experiment), anchor=False)
    live.show(live.named(experiment))
    gains.show(experiment, chosen_recording())
    st.caption(
        "Press Measure all lengths to time the real kernels on this machine; a result is timed only after it "
        "matches float64. As N grows, PyTorch's unfused attention falls behind and at last runs out of "
        "memory, because it stores two N × N matrices."
    )
    label = "Measure all lengths on this machine"
    job_panel(SWEEP, sweep_payload(experiment), label, lambda job: _draw(experiment, job))


def _headline(experiment: Experiment) -> str:
    """Why fewer bytes are less time, in the scenario's own numbers."""
    fused, gain = fused_of(experiment), modelled_gain(experiment)
    title = fused.record.label
    if gain.bytes < gains.LITTLE:
        return (
            f"Here S and P are small, so {title} moves about as many bytes across HBM as unfused attention, "
            f"and takes {gains.times(gain.seconds, 'less')} time (modelled)."
        )
    share, less = products_share(experiment), gains.times(gain.seconds, "less")
    work = "computes the same matrix products as unfused attention, but"
    if share < 1:
        work = f"skips hidden tiles: it computes {share_text(share)} of unfused attention's products, and"
    return (
        f"{title} {work} moves {gains.times(gain.bytes, 'fewer')} bytes across HBM. It takes {less} time "
        "(modelled)."
    )


def _draw(experiment: Experiment, job: Job | None) -> None:
    rows = list(job.result or job.rows) if job is not None else []
    measured, colours = measured_rows(rows), theme.colours()
    recording = chosen_recording()
    here, there = st.columns([1, 1.25], gap="medium") if recording else (st.container(), None)
    with here:
        metric = one_of("Metric", METRICS, "speed_metric")
        st.markdown(f"**This scenario**. {_origins(experiment, measured)}")
        figure = _modelled_only(experiment, metric, colours)
        if measured:
            figure = _speed_by_length(experiment, measured, metric, colours)
        chart(figure, "Speed over the length")
        st.caption(f"{_caption(metric, measured)} {caveats(side_by_side(experiment))}")
    if recording:
        with there:
            if experiment.algorithm == decoded.OWN:
                decoded.recorded(recording, decoding_of(experiment), TIME, colours)
            else:
                recorded.curves(recording, experiment, metric, colours)
    _second_row(experiment, measured, recording, colours)
    _rooflines(experiment, measured, recording, colours)
    if rows:
        st.html(scrolled(records([_cells(row) for row in reversed(rows)], "Measured times"), 260))
    model_errors.show("speed", recording, experiment.gpu)
    model_errors.show_published()
    two_gpus.show(experiment)


def _second_row(experiment: Experiment, measured: list[dict], recording, colours: Palette) -> None:
    """The scenario's bottleneck; measured against modelled; the recorded block sizes."""
    compared = (*pairs(experiment, measured), *(recorded_pairs(recording) if recording else ()))
    swept = recording and any(row.algorithm == experiment.algorithm for row in recording.sweep)
    with st.container(key="apart_speed"):
        held, versus, *blocks = st.columns([1.2, 1, 1.1] if swept else 2, gap="medium")
    with held:
        bottleneck.show(recording, experiment)
    if compared:
        with versus:
            marks = "**Time beside the model**: measured filled, recorded open"
            st.markdown(marks if measured else "**Recorded time beside the model**")
            if recording:
                st.caption("Recorded times are of kernels alone, under the profiler.")
            chart(model_against_time(compared, colours), "Measured against modelled")
    if swept:
        with blocks[0]:
            recorded.blocks(recording, experiment, colours)


def _rooflines(experiment: Experiment, measured: list[dict], recording, colours: Palette) -> None:
    """The roofline over bytes of DRAM: modelled and measured; over those of both levels: recorded."""
    modelled, counted = st.columns(2, gap="medium")
    with modelled:
        st.markdown(f"**Roofline** of the {experiment.gpu.name}, {experiment.problem.dtype}, modelled")
        gpu, keys = experiment.gpu, experiment.problem.seq_kv
        rows = modelled_rows(by_length(experiment).up_to(max(LONGEST, keys)))
        model, points = (under_roof(experiment, each) for each in (rows, measured))
        shape = roofline(gpu, experiment.problem.dtype)
        chart(roofs.roofline(shape, gpu.name, model, points, keys, colours), "Roofline")
        st.caption(
            "Each diamond is one sequence length, coloured as in the curves above; the filled ones are your "
            "scenario."
        )
    if recording:
        with counted:
            bottleneck.rooflines(recording, experiment, colours)


@lru_cache(maxsize=256)
def _modelled_only(experiment: Experiment, metric: str, colours: Palette):
    return _speed_by_length(experiment, [], metric, colours)


def _speed_by_length(experiment: Experiment, measured: list[dict], metric: str, colours: Palette):
    keys = experiment.problem.seq_kv
    lengths = figures.lengths_to(max(LONGEST, keys, *(row["keys"] for row in measured)))
    modelled = modelled_rows(by_length(experiment).up_to(lengths[-1]))
    groups = ((figures.MODELLED, modelled), (HERE, measured))
    return figures.speed_by_length(groups, metric, lengths, colours, mark=keys)


def _origins(experiment: Experiment, measured: list[dict]) -> str:
    """What was measured where and what is modelled of what, so that nothing is compared silently."""
    model = f"Dotted lines are *modelled* for the {experiment.gpu.name}."
    if not measured:
        return f"{model} Nothing has been measured here for this scenario yet."
    row = measured[0]
    here = f"Marks are *measured here* on {row['device']}."
    if same_machine(experiment.gpu, row):
        return f"{here} {model}"
    other = "a CPU" if not row["cuda"] else "another GPU"
    interpreted = " Triton is interpreted here, for correctness and not for speed." if not row["cuda"] else ""
    return f"{here} {model} **These are two machines: this one is {other}.**{interpreted}"


def _caption(metric: str, measured: list[dict]) -> str:
    """What the metric means, and with what the measured rows were measured."""
    if not measured:
        return MEANINGS[metric]
    versions = ", ".join(f"{name} {version}" for name, version in measured[0]["versions"].items())
    return f"{MEANINGS[metric]} Measured with {versions}, {moment(measured[0]['date'])}."


def _cells(row: dict) -> dict[str, str]:
    """A row's figures with units, or why it has none."""
    start = {"implementation": implementation(row), "N": f"{row['keys']:,}"}
    if row["skipped"]:
        return start | {"note": f"skipped: {row['skipped']}"}
    return {
        **start,
        "median": seconds_text(row["p50"]),
        **{percentile: seconds_text(row[percentile]) for percentile in ("p20", "p80")},
        "repeats": str(row["repeats"]),
        "FLOP/s": scaled(row["tflops"] * 1e12, "FLOP/s"),
        "tokens/s": tokens_text(row["tokens_per_second"], "tokens/s"),
        "error to float64": f"{row['error']:.1e}",
        "allowed": f"{row['allowed']:.1e}",
        "note": row["note"],
    }


def _elsewhere(experiment: Experiment, colours: Palette) -> None:
    """Speed-up and rate over the length as recorded, and the tour's roofline."""
    recording = recording_of(experiment.hardware)
    timings = timings_of(recording, *nearest_shape(recording, experiment))
    groups = [(recording.origin, recorded_rows(timings))]
    lengths = sorted({row.problem.seq_kv for row in timings})
    st.markdown(f"The times were {recording.origin}: {recorded.shape_text(timings, 'forward')}.")
    for metric, alt in (
        ("speedup", "Times as fast as unfused PyTorch, recorded"),
        ("tflops", "Rate over the sequence length, recorded"),
    ):
        st.markdown(f"**{alt}**")
        linear = metric == "tflops"
        chart(figures.speed_by_length(groups, metric, lengths, colours, linear=linear), alt)
    PICTURES["roofline"](experiment, colours)


def _drawn(experiment: Experiment) -> Drawn:
    """What phones show; nothing without a recording."""
    return in_both_themes(_elsewhere, experiment) if recording_of(experiment.hardware) else Drawn()


ABOUT = "Recorded kernels over the sequence length."
PICTURE = Picture(
    _drawn,
    lambda: [SiteFile("speed.html", "Speed", ABOUT, lambda: _drawn(EXAMPLE))] if recordings() else [],
)
