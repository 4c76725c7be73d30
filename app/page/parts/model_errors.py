"""How far the model is off by kind of recorded call, in one table: a fold that several pages have."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app.elements import fold, numbers
from app.figures.hardware import unchecked
from app.figures.units import digits, scaled, share_text
from engine.problem.hardware import Gpu, gpu_named
from engine.problem.problem import Problem
from engine.recordings.file import recordings
from engine.recordings.recording import Recording
from engine.studies.model_errors import KINDS, MOST, ModelError, errors
from engine.studies.published import median_of, medians, published

LABEL = "How far is the model off, by kind of call?"
WORDS = (  # of each of KINDS
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


def show(page: str, recording: Recording | None, gpu: Gpu) -> None:
    """A fold with the table; each page has its own."""
    if recording is not None:
        fold(f"{page} model errors", partial(_draw, recording, gpu), LABEL)


def show_published() -> None:
    """A fold with what others published of their GPUs, each row beside the model of ours."""
    fold("published", _draw_published, "What did others measure on their GPUs?")


def _draw_published() -> None:
    found = published()
    st.markdown(
        f"{len(found)} published rates of {len(medians())} GPUs, each beside what the kernel of this project "
        "that is nearest to it is modelled to reach there: kernels differ, so the ratio is no error. Half of "
        f"the rows are below {digits(median_of())}."
    )
    head = ["GPU", "kernel", "call", "published", "modelled", "ratio", "source"]
    lines = [
        [
            *(one.experiment.gpu.name, one.kernel, _call(one.experiment.problem)),
            *(scaled(rate, "FLOP/s") for rate in (one.rate, one.modelled)),
            *(f"{one.ratio:.2f}", one.source),
        ]
        for one in found
    ]
    numbers(head, lines, "Published rates beside the model", words=(0, 1, 2, 6), height=420)
    by_gpu = ", ".join(f"{name} {ratio:.2f}" for name, ratio in medians().items())
    st.caption(
        f"Medians of the ratio by GPU: {by_gpu}. A GPU that no row names, such as a T4, an A10, an L4 or an "
        "RTX 3090, was held against nothing."
    )


def _call(problem: Problem) -> str:
    keys = f" × {problem.seq_kv:,}" * (problem.seq_q != problem.seq_kv)
    mask = ", causal" * problem.mask.causal
    return f"{problem.batch} × {problem.heads} heads, N {problem.seq_q:,}{keys}, d {problem.head_dim}{mask}"


def _draw(recording: Recording, gpu: Gpu) -> None:
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
        names = (known.key.upper() if (known := gpu_named(name)) else name for name in judged)
        heads = [f"{name}, {what}" for name in names for what in ("calls", "median", f"{MOST}%")]
        found = rows(list(judged.values()))
        numbers(["kind of call", *heads], found, "Errors of the model by kind of call", height=460)
        st.caption(
            "The lines on sampled bytes are of bytes over time. A wave begins where reads "
            "rise over twice the call's mean. The model empties the caches before every kernel; a call does "
            "not, so that short unfused attention and FlashAttention-1 move less than modelled."
        )
    if words := unchecked(gpu):
        st.caption(words)


def rows(judged: Sequence[Sequence[ModelError]]) -> list[list[str]]:
    """A line for each kind of call that any GPU has: its words, then three cells of each GPU."""
    by_kind = [{one.kind: one for one in found} for found in judged]
    return [
        [words, *(cell for found in by_kind for cell in _cells(found.get(kind)))]
        for kind, words in zip(KINDS, WORDS, strict=True)
        if any(kind in found for found in by_kind)
    ]


def _cells(one: ModelError | None) -> list[str]:
    return [str(one.count), share_text(one.median, 1), share_text(one.most, 1)] if one else [""] * 3
