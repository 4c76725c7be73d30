"""What a page shows, measured on this machine's GPU: a button, a switch that keeps at it, what was found."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import streamlit as st

from app import scenario, serving
from app.figures.units import bytes_text, moment, seconds_text
from app.page.parts.job import job_of, job_panel, sentence
from app.sidebar.recording import chosen_recording
from engine.experiment import Experiment
from engine.measuring.live import LIVE, Live, offered, payload_of, recorded_like
from engine.model.simulation import simulate
from engine.problem.gpu import Gpu
from engine.problem.hardware import gpu_named
from engine.recordings.samples import Samples
from engine.studies.sampled_calls import SampledCall
from engine.worker.client import Job

BEFORE = "Before this change: "


def show(
    calls: Mapping[str, Experiment],
    orders: Sequence[str] = (),
    page: str = "",
    file: Path | None = None,
    gpus: int = 1,
    more: Callable[[Live], list[str]] = lambda found: [],
) -> Live | None:
    """Calls by what the page calls them, measured here when asked: what was found of these very ones.

    Nothing is drawn on a machine without a GPU, and no button for whoever may not run kernels. orders: of the
    first call's blocks, which are written down too. page: whose picture has what was found, on phones too.
    file: a user's own, whose attention is called. gpus: the first call runs as a ring on at most so many,
    too. more: lines on what else was found.
    """
    if not offered():
        return None
    payload, draw = payload_of([*calls.values()], orders, file, gpus), partial(_draw, calls, page, more)
    job = job_of(LIVE, payload)
    with st.container(key="live"):
        if serving.may_run():
            job_panel(LIVE, payload, "Measure on this GPU", draw, live=True)
        else:
            draw(job)
    return job.result if job is not None else None


def named(*experiments: Experiment) -> dict[str, Experiment]:
    """Experiments by their algorithms' names."""
    return {each.record.label: each for each in experiments}


def sampled(found: Live | None, experiment: Experiment) -> list[SampledCall]:
    """What was measured, to be drawn over time."""
    rows = [row for row in found.rows if row.read] if found else []
    return [SampledCall(row, found.origin, gpu_of(found, experiment)) for row in rows]


def _draw(calls: Mapping[str, Experiment], page: str, more: Callable, job: Job | None) -> None:
    """What was measured; until there is a result what was before, so that nothing below moves."""
    last = scenario.kept("measured here", {})
    if job is not None and job.result is not None:
        text = "  \n".join([*_lines(calls, job.result), *more(job.result)])
        last.update(text=text, names=[*calls], found=job.result)
        last.update(page=page, of=scenario.current())  # for phones
        st.markdown(last["text"])
    elif last.get("names") == [*calls] and not (job is not None and job.error):
        st.markdown(BEFORE + last["text"])


def _lines(calls: Mapping[str, Experiment], live: Live) -> list[str]:
    """A line on where, when and how, and one for each call."""
    times = next(row.times for row in live.rows if row.times)
    lines = [
        f"*Measured here*, {live.device}, {moment(live.date)}: bytes of one call from cold caches "
        f"and the median time of {times.repeats}, each result checked against float64 first."
    ]
    if live.shared:
        lines.append("The times differ much from call to call: another process seems to use this GPU too.")
    lines += [
        _line(name, experiment, row, live)
        for (name, experiment), row in zip(calls.items(), live.rows, strict=True)
    ]
    skipped = dict.fromkeys(row.skipped for row in live.rows if row.times and row.skipped)
    return [*lines, *(sentence(f"bytes were not measured: {why}") for why in skipped)]


def _line(name: str, experiment: Experiment, row: Samples, live: Live) -> str:
    """What a call moved and took, beside the model of it on this GPU and its recording."""
    if row.times is None:
        return sentence(f"{name}: {row.skipped}")
    gpu, recording = gpu_of(live, experiment), chosen_recording()
    of = "" if gpu_named(live.device) else f" for {gpu.with_article}"
    modelled = simulate(experiment.changed(hardware=gpu.key))
    moved = modelled.traffic.dram
    beside = [f"*modelled*{of} {_three(moved.total_read, moved.total_written, modelled.modelled.seconds)}"]
    if recording and (like := recorded_like(recording, experiment)):
        *moved, sampled = like
        how = "" if sampled else " under a profiler, which misses what is left in L2,"
        beside.append(f"*{recording.origin}*{how} {_three(*moved)}")
    own = f"{bytes_text(row.read_bytes)} read, {bytes_text(row.written_bytes)} written, " if row.read else ""
    return f"{name}: **{own}{seconds_text(row.times.p50)}** ({'; '.join(beside)})"


def gpu_of(live: Live, experiment: Experiment) -> Gpu:
    """The GPU that measured; the scenario's where the model does not know it."""
    return gpu_named(live.device) or experiment.gpu


def _three(read: float, written: float, seconds: float) -> str:
    return f"{bytes_text(read)}, {bytes_text(written)}, {seconds_text(seconds)}"
