"""How far the model is off by kind of recorded call, in one table: a fold that two pages have."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app.elements import fold, numbers
from app.figures.hardware import unchecked
from app.figures.units import share_text
from engine.problem.hardware import Gpu, gpu_named
from engine.recordings.file import recordings
from engine.recordings.recording import Recording
from engine.studies.model_errors import KINDS, MOST, ModelError, errors

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
        draw = partial(_draw, recording, gpu)
        fold(f"{page} model errors", draw, "How far is the model off, by kind of call?")


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
        names = [known.key.upper() if (known := gpu_named(name)) else name for name in judged]
        found = rows(dict(zip(names, judged.values(), strict=True)))
        numbers(found, "Errors of the model by kind of call", height=460)
        st.caption(
            "The lines on sampled bytes are of bytes over time. A wave begins where reads "
            "rise over twice the call's mean. The model empties the caches before every kernel; a call does "
            "not, so that short unfused attention and FlashAttention-1 move less than modelled."
        )
    if words := unchecked(gpu):
        st.caption(words)


def rows(judged: dict[str, Sequence[ModelError]]) -> list[dict[str, str]]:
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
