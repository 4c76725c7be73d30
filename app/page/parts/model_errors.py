"""How far the model is off by kind of recorded call, in one table: a fold that several pages have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app.elements import fold
from app.figures.hardware import unchecked
from app.figures.tables import scrolled, table
from app.figures.units import share_text
from engine.problem.hardware import Gpu, gpu_named
from engine.recordings.file import recordings
from engine.recordings.recording import Recording
from engine.studies.model_errors import (
    BACKWARDS,
    COUNTED,
    DECODED,
    DRAM,
    DRAWN_DRAM,
    DRAWN_L2,
    DRAWN_REQUESTS,
    DRAWN_TIMES,
    KINDS,
    MASKED,
    MOST,
    SWEPT,
    TIMED,
    ModelError,
    errors,
)

LABEL = "How far is the model off, by kind of call?"
WORDS = {
    TIMED: "time, forward, in a kernel's own blocks",
    SWEPT: "time, forward, over sizes of blocks",
    MASKED: "time, forward, with documents and windows",
    BACKWARDS: "time, backward",
    DECODED: "time, decoding with split keys",
    COUNTED: "time under the profiler",
    DRAM: "DRAM reads beyond the compulsory ones",
    DRAWN_TIMES: "calls drawn by lot: time",
    DRAWN_DRAM: "calls drawn by lot: DRAM reads",
    DRAWN_L2: "calls drawn by lot: bytes from L2 to the SMs",
    DRAWN_REQUESTS: "calls drawn by lot: bytes that tiles request",
}


def show(page: str, recording: Recording | None, gpu: Gpu) -> None:
    """A fold with the table; each page has its own."""
    if recording is not None:
        fold(f"{page} model errors", partial(_draw, recording, gpu), LABEL)


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
        heads = [f"{_short(name)}, {what}" for name in judged for what in ("calls", "median", f"{MOST}%")]
        title = "Errors of the model by kind of call"
        st.html(scrolled(table(["kind of call", *heads], rows(list(judged.values())), title=title), 360))
    if words := unchecked(gpu):
        st.caption(words)


def _short(name: str) -> str:
    gpu = gpu_named(name)
    return gpu.key.upper() if gpu else name


def rows(judged: Sequence[Sequence[ModelError]]) -> list[list[str]]:
    """A line for each kind of call that any GPU has: its words, then three cells of each GPU."""
    by_kind = [{one.kind: one for one in found} for found in judged]
    return [
        [WORDS[kind], *(cell for found in by_kind for cell in _cells(found.get(kind)))]
        for kind in KINDS
        if any(kind in found for found in by_kind)
    ]


def _cells(one: ModelError | None) -> list[str]:
    if one is None:
        return ["", "", ""]
    return [str(one.count), share_text(one.median, 1), share_text(one.most, 1)]
