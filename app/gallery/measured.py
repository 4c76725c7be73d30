"""The gallery's pages of measurements: bytes and memory, recorded speed, blocks on SMs, claims."""

from __future__ import annotations

from functools import partial
from html import escape

from app import gpu
from app.figures import claims as claims_figures
from app.figures import speed, traffic
from app.figures.algorithms import name as algorithm_name
from app.gallery.shell import above, both, sideways
from app.gallery.svg import chart
from app.gallery.tour import bytes_by_length, bytes_by_tensor, memory_by_length, under_the_roof
from app.gallery.written import written
from app.gpu.payload import build
from app.markup import markdown
from app.markup.formulas import mathml
from app.page.claims import BROKEN
from app.page.parts import chip
from app.page.parts.recorded import shape_text
from engine.experiment import Experiment
from engine.model.simulated_timeline import simulate_timeline
from engine.recordings.recording import Recording
from engine.recordings.rows import nearest_shape, recorded_rows, timings_of
from engine.recordings.timelines import hardware_of, nearest_call, timeline_of, traced_calls
from engine.studies.claims import checked
from engine.studies.claims.broken import rising
from engine.studies.claims.verdict import Checked
from engine.studies.survey import by_tiling

KERNEL = (
    "In the dashboard, the scheduler, the real Triton kernel and float64 are compared tile by tile on the "
    "reader's own machine. A file runs no kernel: it shows the other half, the model beside the counters."
)


def bytes_moved(experiment: Experiment) -> str:
    """Bytes by tensor, over the length and over block sizes, and the memory that the tensors take."""
    tiling, costs = experiment.tiling, by_tiling(experiment)
    blocks = (tiling.block_q, tiling.block_kv)
    grid = both(lambda colours: sideways(traffic.bytes_by_tiling(costs, blocks, colours)))
    return (
        f"{bytes_by_tensor(experiment)}{bytes_by_length(experiment)}{memory_by_length(experiment)}"
        "<p><b>Requested bytes over block sizes</b>, counted. Crossed-out sizes need more shared memory than "
        f"the GPU allows per thread block; the frame marks the blocks of this scenario.</p>{grid}"
    )


def recorded_speed(recording: Recording, experiment: Experiment) -> str:
    """Speed-up and rate over the length as recorded, and the roofline."""
    timings = timings_of(recording, *nearest_shape(recording, experiment))
    rows = recorded_rows(timings)
    lengths = sorted({row.problem.seq_kv for row in timings})
    shape = shape_text(timings, "forward")
    parts = [f"<p>The times were {escape(recording.origin)}: {escape(shape)}.</p>"]
    for metric, alt in (
        ("speedup", "Times as fast as unfused PyTorch, recorded"),
        ("tflops", "Rate over the sequence length, recorded"),
    ):
        groups = [(recording.origin, rows)]
        parts.append(f"<p><b>{alt}</b></p>")
        parts.append(
            both(
                lambda colours, metric=metric, alt=alt, groups=groups: chart(
                    speed.speed_by_length(groups, metric, lengths, colours, linear=metric == "tflops"), alt
                )
            )
        )
    return "".join(parts) + under_the_roof(experiment)


def on_the_gpu(recording: Recording, experiment: Experiment, title: str, about: str) -> str:
    """The recorded blocks of the call nearest to an experiment, beside the model of the same."""
    payload, says = blocks_on_sms(recording, experiment)
    return gpu.moving().offline(payload, title, above(title, f"{about} {says}"))


def blocks_on_sms(recording: Recording, experiment: Experiment) -> tuple[bytes, str]:
    """The same as the picture's payload, and which call it is."""
    call = nearest_call([row for row in traced_calls(recording) if row.times is not None], experiment)
    timeline = timeline_of(call, recording.origin, hardware_of(recording))
    lanes = (timeline, simulate_timeline(timeline.experiment, call.order))
    problem = call.problem
    says = f"{algorithm_name(call.provider)}, {problem.seq_kv:,} tokens, {problem.all_heads} heads."
    return build(lanes), says


def agreement(recording: Recording, experiment: Experiment) -> str:
    """The model against the chip's own counters; what runs a kernel needs the dashboard."""
    return f"<p>{KERNEL}</p>{counters(recording, experiment)}"


def counters(recording: Recording, experiment: Experiment) -> str:
    """The model against the chip's own counters."""
    drawn = partial(written, lambda _, colours: chip.show(recording, colours), experiment, places={})
    return both(lambda colours: drawn(colours=colours).text())


def claims() -> str:
    """Every claim with its verdict, the numbers found, and why."""
    return "".join(_claim(one) for one in checked())


def _claim(one: Checked) -> str:
    claim = one.claim
    return (
        f"<section class='card'><h2>{claim.number}. {escape(claim.says)}</h2>"
        f"<p><span class='verdict'>{escape(one.verdict.capitalize())}</span> "
        f"<span class='note'>Source: a {escape(claim.source)}</span></p>"
        f"{sideways(claims_figures.findings_table(one.findings))}"
        f"{markdown.html(one.why)}{_broken() if claim.number == BROKEN else ''}{mathml(claim.formula)}"
        f"<p class='note'>Scenario: {escape(claims_figures.scenario_text(claim.experiment))}</p></section>"
    )


def _broken() -> str:
    """The update as it was written beside the right one."""
    course, alt = rising(), "Error of O, block by block"
    return both(lambda colours: chart(claims_figures.broken(course, colours), alt)) + (
        f"{sideways(claims_figures.broken_table(course))}"
    )
