"""The Agreement page: scheduler, kernel and float64 compute the same, tile by tile."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import scenario
from app.elements import chart, fold, numbers, one_of, placed, smaller_sibling
from app.figures import agreement as figures
from app.figures.hardware import unchecked
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
from engine.measuring.agreement import AGREE, ORIGIN, PAIRS, Agreement, kept, small_sibling
from engine.measuring.kernel_traffic import COUNT, RealTraffic
from engine.model.launch import schedule_of
from engine.problem.hardware import Gpu, gpu_named
from engine.recordings.file import recording_of, recordings
from engine.recordings.recording import Recording
from engine.studies.model_errors import KINDS, MOST, ModelError, errors
from engine.worker.client import Job

QUANTITIES = {  # what each is called, and where it is compared
    "O": ("O, the output", "every row of every query block"),
    "lse": ("lse", "every row of every query block"),
    "m": ("m, running maximum", "every row after every tile"),
    "l": ("l, running sum", "every row after every tile"),
    "alpha": ("α, rescale factor", "every row at every tile"),
}

WORDS = (  # of each of KINDS of calls that the model is held against
    "time, forward, in a kernel's own blocks",
    "time, forward, over sizes of blocks",
    "time, forward, with further masks, with terms, or with V of another head dim",
    "time, backward",
    "time, decoding with split keys",
    "time under the profiler",
    "DRAM reads beyond the compulsory ones",
    "calls drawn by lot: time",
    "calls drawn by lot: DRAM reads",
    "calls drawn by lot: bytes from L2 to the SMs",
    "calls drawn by lot: bytes that tiles request",
    "sampled over time: all bytes that cross HBM",
    "sampled over time: the rate at the peak",
    "sampled over time: how many waves fetch",
    "sampled over time: when a wave begins, over the call",
    "layers of models, prefill and decoding: time",
    "layers of models: attention's share of the time, points",
)


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
    fold("agreement", partial(_origins, sibling))


def _draw(sibling: Experiment, job: Job | None) -> None:
    """The verdict, and every tile; before there is a result the tiles that will be compared."""
    agreement: Agreement | None = job.result if job is not None else None
    where, under_way = "Measured here", job is not None and job.under_way
    if job is None and kept().experiment == sibling:
        agreement, where = kept(), "Not measured here, but kept from another machine"
    with st.container(key="agreement_verdict"):
        if agreement is None:
            now = "Nothing has been compared yet: after the comparison each tile shows"
            if under_way:
                now = "The three are computed now; each tile then shows"
            st.caption(f"{now} how far two of them are apart.")
        else:
            verdict(agreement, where)
    names, colours = {name: QUANTITIES[name][0] for name in _compared(sibling)}, theme.colours()
    quantity = one_of("Quantity", names, "agreement_quantity", first="m")
    for column, pair in zip(st.columns(len(PAIRS), gap="medium"), PAIRS, strict=True):
        title = f"{NAMES[pair[0]]} − {NAMES[pair[1]]}"
        if agreement is None:
            told = "computed now" if under_way else "not compared yet"
            figure = figures.awaited(schedule_of(sibling), colours)
        else:
            told = f"≤ {agreement.largest(quantity, pair):.1e}"
            figure = figures.differences(agreement, quantity, pair, colours)
        if presenting():
            figure["layout"]["height"] *= 0.65
        column.markdown(f"**{title}**, {told}")
        chart(figure, f"{quantity}: {title}", title, column)
    if agreement is not None:
        named = {key: name + ", relative" * (key == "l") for key, (name, _) in QUANTITIES.items()}
        differences(agreement, named, "Largest differences and tolerances")


def _traffic(sibling: Experiment) -> None:
    """The real kernel's bytes, watched, beside the schedule's: by tensor, and tile by tile."""
    st.caption(
        "Triton's interpreter runs the real kernel on this machine, without a GPU, and every load and store "
        "is counted where it happens; the scheduler counts the schedule's bytes. Both are of one head."
    )
    job_panel(COUNT, sibling.flat(), "Count on this machine", _draw_traffic)


def _draw_traffic(job: Job | None) -> None:
    """The verdict, bytes by tensor, and the bytes that come for each tile."""
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
    by_tensor, by_tile = st.columns([1, 1.4], gap="large")
    numbers(figures.by_tensor(counted), "Bytes of the kernel and of the schedule", where=by_tensor)
    by_tile.markdown("**kB of Q, K and V read for each tile**, by both; struck out where they differ")
    by_tile.html(figures.by_tile(counted, theme.colours()))


def _errors(recording: Recording, gpu: Gpu) -> None:
    """How far the model is off by kind of recorded call, in one table."""
    others = (each for each in recordings() if each.device.gpu != recording.device.gpu)
    judged = {each.device.gpu: errors(each) for each in (recording, *others)}
    judged = {name: found for name, found in judged.items() if found}
    if recording.device.gpu not in judged:
        st.caption(f"The model knows no {recording.device.gpu}, so its rows judge nothing.")
    if judged:
        st.markdown(
            f"Half of the calls are off by less than the median, and {MOST}% of them by less than what "
            "stands beside it, as shares of what was recorded. Each is simulated now."
        )
        names = [known.key.upper() if (known := gpu_named(name)) else name for name in judged]
        found = error_rows(dict(zip(names, judged.values(), strict=True)))
        numbers(found, "Errors of the model by kind of call", height=460)
        st.caption(
            "The lines on sampled bytes are of bytes over time. A wave begins where reads "
            "rise over twice the call's mean. The model empties the caches before every kernel; a call does "
            "not, so that short unfused attention and FlashAttention-1 move less than modelled."
        )
    if words := unchecked(gpu):
        st.caption(words)


def error_rows(judged: dict[str, Sequence[ModelError]]) -> list[dict[str, str]]:
    """A line for each kind of call that any GPU has: its words, then three cells of each GPU, by its name."""
    by_kind = {name: {one.kind: one for one in found} for name, found in judged.items()}
    lines = []
    for kind, words in zip(KINDS, WORDS, strict=True):
        cells = {"kind of call": words}
        for name, found in by_kind.items():
            one = found.get(kind)
            cells[f"{name}, calls"] = str(one.count) if one else ""
            cells[f"{name}, median"] = share_text(one.median, 1) if one else ""
            cells[f"{name}, {MOST}%"] = share_text(one.most, 1) if one else ""
        lines += [cells] * any(kind in found for found in by_kind.values())
    return lines


def _origins(sibling: Experiment) -> None:
    """What is compared, and where the tolerances come from."""
    st.caption(
        "The kernel is the real Triton one (interpreted where there is no GPU), the scheduler is this "
        "program's own execution through its counting memory, and float64 is a dense softmax. The rounding "
        "unit u of float32 is 2⁻²³."
    )
    head = ("what is compared", "where", "how far apart two may be")
    rows = [dict(zip(head, (*QUANTITIES[name], ORIGIN[name]), strict=True)) for name in _compared(sibling)]
    numbers(rows, "What is compared", words=(0, 1, 2))
    if sibling.record.unfused:
        st.caption(
            f"Unfused attention stores S in {sibling.problem.dtype}, so m's bound includes that rounding."
        )


def _compared(sibling: Experiment) -> list[str]:
    """Unfused attention rescales nothing."""
    return [name for name in QUANTITIES if name != "alpha" or not sibling.record.unfused]


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
PICTURE = Picture(_counters, lambda: [SITE_FILE] * bool(recordings()))
