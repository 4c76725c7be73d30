"""The Speed page: measured on this machine when asked, beside recordings of a GPU and the model."""

from functools import lru_cache, partial

import streamlit as st

from app import scenario
from app.elements import GREY, chart, fold, numbers, one_of, plot, too_large, unsure
from app.figures import speed as figures
from app.figures.algorithms import caveats, implementation
from app.figures.algorithms import short as short_name
from app.figures.colours import Palette
from app.figures.units import (
    digits,
    gain_text,
    moment,
    scaled,
    seconds_text,
    share_text,
)
from app.gallery.picture import EXAMPLE, Drawn, Picture
from app.gallery.without_streamlit import in_both_themes
from app.page.parts import decoded, live, recorded
from app.page.parts.job import job_panel
from app.scenario import theme
from app.sidebar.recording import chosen_recording
from engine.experiment import Experiment, described
from engine.measuring.measure import SWEEP, sweep_payload
from engine.model.simulation import simulate
from engine.problem.hardware import gpu_named, same_machine
from engine.recordings import counters
from engine.recordings.file import recording_of
from engine.recordings.recording import Recording
from engine.recordings.rows import nearest_shape, recorded_rows, timings_of
from engine.studies import gains
from engine.studies.decoding import decoding_of
from engine.studies.model_errors import medians, published
from engine.studies.survey import (
    HERE,
    LONGEST,
    by_length,
    measured_rows,
    modelled_rows,
    roofline,
    side_by_side,
)
from engine.worker.client import Job

METRICS = {key: name for key, (name, _) in figures.METRICS.items()}
FLOPS = (
    "FLOP/s are 4·B·H·N²·d FLOPs, halved when causal, over the median time; with a window, documents or "
    "other lengths, 4·d FLOPs count for each pair of a query and a key that it sees. "
)
UNITS = {
    "tensor core": "tensor cores",
    "exp": "exponentials and float32 arithmetic",
    "L2": "L2 to SMs",
    "HBM": "HBM",
    "issue": "issue slots",
    "launch": "launch and waiting",
    "tail": "tail: SMs idle",
}
# where no tensor core takes the dtype
PLAIN = {"tensor core": "matrix products, which run on the float32 units in this data type"}
LITTLE = 1.5  # times fewer bytes that are no reason for less time


def show() -> None:
    """Draw the page."""
    experiment, recording, colours = scenario.current(), chosen_recording(), theme.colours()
    st.header(_headline(experiment), anchor=False)
    live.show(live.named(experiment))
    _gains(experiment, recording, colours)
    label, draw = "Measure all lengths on this machine", partial(_draw, experiment, recording, colours)
    job_panel(SWEEP, sweep_payload(experiment), label, draw)


def _times(ratio: float, less: str) -> str:
    """A ratio as "16.9 times fewer" or, below 1, as "1.2 times more"; `less` is fewer or less."""
    return gain_text(ratio, less).replace("×", " times")


def _headline(experiment: Experiment) -> str:
    """Why fewer bytes are less time, in the scenario's own numbers."""
    gain, title = gains.modelled_gain(experiment), gains.fused_of(experiment).record.label
    share, less = gains.products_share(experiment), _times(gain.seconds, "less")
    if gain.bytes < LITTLE:
        return (
            f"Here S and P are small, so {title} moves about as many bytes across HBM as unfused attention, "
            f"and takes {less} time (modelled)."
        )
    work = "computes the same matrix products as unfused attention, but"
    if share < 1:
        work = f"skips hidden tiles: it computes {share_text(share)} of unfused attention's products, and"
    return (
        f"{title} {work} moves {_times(gain.bytes, 'fewer')} bytes across HBM. It takes {less} time "
        "(modelled)."
    )


def _gains(experiment: Experiment, recording: Recording | None, colours: Palette) -> None:
    """How many times fewer bytes and less time than unfused attention: at this length, and over N."""
    problem, fused = experiment.problem, gains.fused_of(experiment)
    keys, curve = problem.seq_kv, gains.modelled_gains(experiment, max(LONGEST, problem.seq_kv))
    rows = gains.recorded_gains(recording, experiment) if recording else ()
    modelled, real = gains.modelled_gain(experiment), gains.gain_at(rows, keys)
    figures_column, lines = st.columns([1, 2.4], gap="large")
    with figures_column, st.container(key="gains_numbers"):
        for name, less, ratio in (
            ("Bytes across HBM", "fewer", lambda gain: gain.bytes),
            ("Time", "less", lambda gain: gain.seconds),
        ):
            beside = f"{_times(ratio(modelled), less)}, modelled" if real else "not recorded at this scenario"
            value = gain_text(ratio(real or modelled), less)
            label = f"{name}, {'recorded' if real else 'modelled'}"
            st.metric(label, value, beside, border=True, **GREY)
        unsure({short_name(fused.algorithm): simulate(fused).traffic})
    origin = recording.origin if recording else ""
    marks = "Nothing was recorded for this shape."
    if rows:
        marks = (
            f"Marks are {origin} by the chip's counters, under the profiler, for this shape and these "
            "tiles; the counters miss what still lay in L2 when a kernel ended."
        )
    plot(
        "Bytes and time over the length",
        figures.gains_by_length(curve, rows, keys, colours),
        f"Lines are modelled. {marks}{too_large(experiment)}",
        after=f": {short_name(fused.algorithm)} against unfused attention",
        where=lines,
    )


def _draw(experiment: Experiment, recording: Recording | None, colours: Palette, job: Job | None) -> None:
    """The scenario over the length beside a recording, what bounds it, rooflines, and tables in folds."""
    rows = list(job.result or job.rows) if job is not None else []
    measured = measured_rows(rows)
    here, there = st.columns([1, 1.25], gap="medium") if recording else (st.container(), None)
    with here:
        metric = one_of("Metric", METRICS, "speed_metric")
        st.markdown(f"**This scenario**. {_origins(experiment, measured)}")
        figure = _modelled_only(experiment, metric, colours)
        if measured:
            figure = _speed_by_length(experiment, measured, metric, colours)
        chart(figure, "Speed over the length")
        over = "Speed-ups are over unfused attention: PyTorch's where measured. " * (metric == "speedup")
        st.caption(f"{over}{FLOPS * (metric == 'tflops')}{caveats(side_by_side(experiment))}")
    if recording:
        with there:
            if experiment.algorithm == decoded.OWN:
                decoded.recorded(recording, decoding_of(experiment), colours)
            else:
                recorded.curves(recording, experiment, metric, colours)
    points = counters.roofline_points(recording, experiment) if recording else ()
    gpu = gpu_named(recording.device.gpu) if points else None
    held, over, *counted = st.columns(3 if gpu else 2, gap="medium")
    with held:
        _bottleneck(recording, experiment)
    with over:
        _roofline(experiment, colours)
    if gpu:
        problem, roof = experiment.problem, roofline(gpu, points[0]["dtype"])
        mask = "no mask" if problem.mask.looks_ahead else "masked"
        plot(
            "Roofline of L2 and HBM",
            figures.roofline(roof, {recording.origin: points}, "FLOP per byte, recorded", colours),
            "Each line joins the two levels of one call; its length is what L2 saves. Colours are those of "
            "the recorded curves; times are of kernels under the profiler.",
            after=f": d = {problem.head_dim}, {mask}, {recording.origin}",
            where=counted[0],
        )
    if rows:
        numbers([cells(row) for row in reversed(rows)], "Measured times", words=(0, 9), height=260)
    fold("published", _published, "What did others measure on their GPUs?")


def _bottleneck(recording: Recording | None, experiment: Experiment) -> None:
    """The scenario's bottleneck: modelled, and how busy the counters say each unit was."""
    simulation, gpu = simulate(experiment), experiment.gpu
    units = UNITS if gpu.has_tensor_cores_for(experiment.problem.dtype) else UNITS | PLAIN
    found = counters.nearest_counters(recording, experiment) if recording else None
    columns = {"modelled": counters.modelled_shares(simulation)}
    said = (
        "Each row is the share of its peak that a unit reaches over the whole run. Modelled: the time that "
        "the unit would need at its peak ÷ total time; L2's peak is "
        f"{scaled(gpu.cache_bytes_per_second, 'B/s')} ({gpu.sources['L2 to SMs']})."
    )
    st.markdown(f"**Bottleneck (modelled)**: {units[simulation.modelled.bound]}")
    if found is not None:
        one, same = found
        if not same:
            columns["nearest"] = counters.modelled_shares(one.simulation)
            said += f" Nearest: the model of the recorded scenario nearest to this one, {one.what}."
        columns["recorded"] = one.utilisation
        said += (
            f" Recorded: Nsight counters for {'this scenario' if same else 'that one'}, {recording.origin}, "
            "as a share of the same peaks, those of the SM's units at the clock they had (exponentials "
            "without float32)."
        )
    rows = []
    for unit, name in units.items():
        busy = {column: each.get(unit) for column, each in columns.items()}
        told = {column: "" if share is None else share_text(share) for column, share in busy.items()}
        rows += [{"busy": name, **told}] * any(share is not None for share in busy.values())
    numbers(rows, "Busy share of each unit")
    st.caption(said)


def _roofline(experiment: Experiment, colours: Palette) -> None:
    """Over bytes of DRAM, modelled."""
    gpu, problem = experiment.gpu, experiment.problem
    rows = modelled_rows(by_length(experiment).up_to(max(LONGEST, problem.seq_kv)))
    calls = {figures.MODELLED: [row | {"filled": row["keys"] == problem.seq_kv} for row in rows]}
    plot(
        "Roofline",
        figures.roofline(roofline(gpu, problem.dtype), calls, "FLOP per DRAM byte", colours),
        "Each mark is one sequence length, in its algorithm's colour; the filled ones are your scenario.",
        after=f" of the {gpu.name}, {problem.dtype}, modelled",
    )


@lru_cache(maxsize=256)
def _modelled_only(experiment: Experiment, metric: str, colours: Palette):
    return _speed_by_length(experiment, [], metric, colours)


def _speed_by_length(experiment: Experiment, measured: list[dict], metric: str, colours: Palette):
    keys = experiment.problem.seq_kv
    longest = max(LONGEST, keys, *(row["keys"] for row in measured))
    groups = ((figures.MODELLED, modelled_rows(by_length(experiment).up_to(longest))), (HERE, measured))
    return figures.speed_by_length(groups, metric, colours, keys)


def _origins(experiment: Experiment, measured: list[dict]) -> str:
    """What was measured where and what is modelled of what, so that nothing is compared silently."""
    model = f"Dotted lines are *modelled* for the {experiment.gpu.name}."
    if not measured:
        return f"{model} Nothing has been measured here for this scenario yet."
    row = measured[0]
    apart = " **These are two machines.**" * (not same_machine(experiment.gpu, row))
    slow = " Triton is interpreted here, for correctness and not for speed." * (not row["cuda"])
    here = f"*measured here* on {row['device']}, {moment(row['date'])}"
    return f"Marks are {here}. {model}{apart}{slow}"


def cells(row: dict) -> dict[str, str]:
    """A measured row's figures with units, or why it has none."""
    start = {"implementation": implementation(row), "N": f"{row['keys']:,}"}
    if row["skipped"]:
        return start | {"note": f"skipped: {row['skipped']}"}
    return {
        **start,
        "median": seconds_text(row["p50"]),
        **{percentile: seconds_text(row[percentile]) for percentile in ("p20", "p80")},
        "repeats": str(row["repeats"]),
        "FLOP/s": scaled(row["tflops"] * 1e12, "FLOP/s"),
        "error to float64": f"{row['error']:.1e}",
        "allowed": f"{row['allowed']:.1e}",
        "note": row["note"],
    }


def _published() -> None:
    """What others published of their GPUs, each row beside the model of ours."""
    found, by_gpu = published(), medians()
    half = digits(by_gpu.pop(""))
    st.markdown(
        f"{len(found)} published rates of {len(by_gpu)} GPUs, each beside what the kernel of this project "
        "that is nearest to it is modelled to reach there: kernels differ, so the ratio is no error. Half of "
        f"the rows are below {half}."
    )
    rows = [
        {
            "GPU": one.experiment.gpu.name,
            "kernel": one.kernel,
            "call": described(one.experiment),
            "published": scaled(one.rate, "FLOP/s"),
            "modelled": scaled(one.modelled, "FLOP/s"),
            "ratio": f"{one.ratio:.2f}",
            "source": one.source,
        }
        for one in found
    ]
    numbers(rows, "Published rates beside the model", words=(0, 1, 2, 6), height=420)
    told = ", ".join(f"{name} {ratio:.2f}" for name, ratio in by_gpu.items())
    st.caption(f"Medians of the ratio by GPU: {told}. A GPU that no row names was held against nothing.")


def _elsewhere(experiment: Experiment, colours: Palette) -> None:
    """Speed-up and rate over the length as recorded, and the tour's roofline."""
    recording = recording_of(experiment.hardware)
    timings = timings_of(recording, *nearest_shape(recording, experiment))
    groups = [(recording.origin, recorded_rows(timings))]
    st.markdown(f"The times were {recording.origin}: {recorded.shape_text(timings, 'forward')}.")
    for metric, title in (
        ("speedup", "Times as fast as unfused PyTorch, recorded"),
        ("tflops", "Rate over the sequence length, recorded"),
    ):
        plot(title, figures.speed_by_length(groups, metric, colours))
    _roofline(experiment, colours)


def _drawn(experiment: Experiment) -> Drawn:
    """What phones show; nothing without a recording."""
    return in_both_themes(_elsewhere, experiment) if recording_of(experiment.hardware) else Drawn()


PICTURE = Picture(_drawn, "Recorded kernels over the sequence length.", EXAMPLE)
