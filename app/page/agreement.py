"""The Agreement page: scheduler, kernel and float64 compute the same, tile by tile."""

from functools import partial

import streamlit as st

from app import scenario
from app.elements import chart, fold, numbers, one_of, placed, smaller_sibling
from app.figures import agreement as figures
from app.figures.hardware import unchecked
from app.figures.shared_tables import tensor_name
from app.figures.units import moment, share_text
from app.gallery.picture import EXAMPLE, Drawn, Picture, SiteFile
from app.gallery.without_streamlit import in_both_themes
from app.page.parts import chip
from app.page.parts.compared import NAMES, differences, verdict
from app.page.parts.job import job_panel
from app.scenario import theme
from app.scenario.presentation import presenting
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine.experiment import Experiment
from engine.measuring.agreement import (
    AGREE,
    COUNT,
    ORIGIN,
    PAIRS,
    Agreement,
    RealTraffic,
    kept,
    small_sibling,
)
from engine.problem.hardware import Gpu, gpu_named
from engine.recordings.file import recording_of, recordings
from engine.recordings.recording import Recording
from engine.studies.model_errors import KINDS, MOST, errors
from engine.worker.client import Job

QUANTITIES = {
    "O": "O, the output",
    "lse": "lse",
    "m": "m, running maximum",
    "l": "l, running sum",
    "alpha": "α, rescale factor",
}


def show() -> None:
    """Draw the page."""
    experiment, recording = scenario.current(), chosen_recording()
    sibling = small_sibling(experiment)
    unused("One head is compared; the others are computed likewise.", "batch", "heads", "kv_heads")
    st.header(
        "Three independent computations (our scheduler, the real Triton kernel, dense float64) should "
        "give the same numbers in every tile. A tile turns red if two of them differ by more than "
        "rounding can explain.",
        anchor=False,
    )
    above = placed(not presenting())  # in a room the picture has the first screen
    job_panel(AGREE, sibling.flat(), "Compare on this machine", partial(_draw, sibling))
    run, length = sibling.problem, f"{sibling.problem.seq_q:,} queries and {sibling.problem.seq_kv:,} keys"
    if smaller := smaller_sibling(run, experiment.problem):
        length += (f", a window of {run.mask.window:,}" if run.mask.window else "") + smaller
    instead = ""
    if sibling.algorithm != experiment.algorithm:
        instead = f"{sibling.record.label} stands in here, because its kernel can report every tile. "
    with above:
        st.caption(
            f"{instead}This runs one head of {length}, with head dimension {run.head_dim}, {run.dtype} and "
            f"blocks of {sibling.tiling.block_q} × {sibling.tiling.block_kv}. It takes a few seconds even "
            "without a GPU."
        )
    fold("agreement traffic", partial(_traffic, sibling), "Does the kernel move the bytes that are counted?")
    if recording:
        counters = partial(chip.show, recording, theme.colours())
        fold("agreement counters", counters, "Does the model agree with the chip's own counters?")
        far = partial(_errors, recording, experiment.gpu)
        fold("agreement model errors", far, "How far is the model off, by kind of call?")


def _draw(sibling: Experiment, job: Job | None) -> None:
    """The verdict, every tile, and the largest differences; without a result, what there will be."""
    agreement: Agreement | None = job.result if job is not None else None
    where = "Measured here"
    if job is None and kept().experiment == sibling:
        agreement, where = kept(), "Not measured here, but kept from another machine"
    if agreement is None:
        st.caption("Nothing has been compared yet: each tile then shows how far two of the three are apart.")
        return
    with st.container(key="agreement_verdict"):
        verdict(agreement, where)
    names = {name: QUANTITIES[name] for name in agreement.quantities}
    quantity = one_of("Quantity", names, "agreement_quantity", first="m")
    for column, pair in zip(st.columns(len(PAIRS), gap="medium"), PAIRS, strict=True):
        title = f"{NAMES[pair[0]]} − {NAMES[pair[1]]}"
        figure = figures.differences(agreement, quantity, pair, theme.colours())
        if presenting():
            figure["layout"]["height"] *= 0.65
        column.markdown(f"**{title}**, ≤ {agreement.largest(quantity, pair):.1e}")
        chart(figure, f"{quantity}: {title}", title, column)
    told = {name: of + ", relative" * (name == "l") for name, of in names.items()}
    differences(agreement, told, "Largest differences and tolerances", ORIGIN)
    unfused = f" Unfused attention stores S in {sibling.problem.dtype}, which m's bound includes."
    st.caption(
        "m, l and α are compared in every row after every tile, O and lse in every row. The rounding unit u "
        f"of float32 is 2⁻²³.{unfused * sibling.record.unfused}"
    )


def _traffic(sibling: Experiment) -> None:
    """The real kernel's bytes, watched, beside the schedule's."""
    st.caption(
        "Triton's interpreter runs the real kernel on this machine, without a GPU, and every load and store "
        "is counted where it happens; the scheduler counts the schedule's bytes. Both are of one head."
    )
    job_panel(COUNT, sibling.flat(), "Count on this machine", _draw_traffic)


def _draw_traffic(job: Job | None) -> None:
    """The verdict on tensors and tiles, and the bytes by tensor."""
    counted: RealTraffic | None = job.result if job is not None else None
    if counted is None:
        st.caption("Nothing has been counted here yet for these tiles.")
        return
    words = "tensor and tile the kernel moves the bytes that the schedule counts. Counted here,"
    told = f"{'In' if counted.equal else 'Not in'} every {words} {moment(counted.date)}."
    (st.success if counted.equal else st.error)(told)
    if counted.unasked:
        st.caption(
            f"The kernel also writes {counted.unasked:,} bytes of lse for whoever asks; unfused attention "
            "itself keeps none."
        )
    rows = [
        {
            "bytes": f"{tensor_name(tensor)} {verb}",
            "Triton kernel, watched": f"{kernel:,}",
            "schedule, counted": f"{schedule:,}",
            "": "equal" if kernel == schedule else "differ",
        }
        for verb, moved in (("read", counted.read), ("written", counted.written))
        for tensor, (kernel, schedule) in moved.items()
    ]
    numbers(rows, "Bytes of the kernel and of the schedule")


def _errors(recording: Recording, gpu: Gpu) -> None:
    """How far the model is off by kind of recorded call, in one table."""
    others = (each for each in recordings() if each.device.gpu != recording.device.gpu)
    judged = {each.device.gpu: errors(each) for each in (recording, *others)}
    if not judged[recording.device.gpu]:
        st.caption(f"The model knows no {recording.device.gpu}, so its rows judge nothing.")
    names = {gpu_named(name).key.upper(): found for name, found in judged.items() if found}
    if names:
        st.markdown(
            f"Half of the calls are off by less than the median, and {MOST}% of them by less than what "
            "stands beside it, as shares of what was recorded. Each is simulated now."
        )
        rows = []
        for kind, words in KINDS.items():
            cells = {"kind of call": words}
            for name, found in names.items():
                one = found.get(kind)
                cells[f"{name}, calls"] = str(one.count) if one else ""
                cells[f"{name}, median"] = share_text(one.median, 1) if one else ""
                cells[f"{name}, {MOST}%"] = share_text(one.most, 1) if one else ""
            rows += [cells] * any(kind in found for found in names.values())
        numbers(rows, "Errors of the model by kind of call", height=460)
        st.caption(
            "The lines on sampled bytes are of bytes over time. A wave begins where reads "
            "rise over twice the call's mean. The model empties the caches before every kernel; a call does "
            "not, so that short unfused attention and FlashAttention-1 move less than modelled."
        )
    if words := unchecked(gpu):
        st.caption(words)


def _counters(experiment: Experiment) -> Drawn:
    """The model against the chip's own counters; nothing without a recording."""
    recording = recording_of(experiment.hardware)
    if recording is None:
        return Drawn()
    return in_both_themes(lambda _, colours: chip.show(recording, colours), experiment)


ABOUT = "The model against the counters of a real GPU, scenario by scenario."
NO_KERNELS = (
    "In the dashboard, the scheduler, the real Triton kernel and float64 are compared tile by tile on the "
    "reader's own machine. A file runs no kernel: it shows the other half, the model beside the counters."
)
SITE_FILE = SiteFile(
    "agreement.html", "Agreement", ABOUT, lambda: Drawn(f"<p>{NO_KERNELS}</p>{_counters(EXAMPLE).html}")
)
PICTURE = Picture(_counters, several=lambda: [SITE_FILE] * bool(recordings()))
