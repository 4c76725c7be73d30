"""What of the model was fitted, to which rows, and how far it is off on the rows that were left out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import streamlit as st

from app.elements import fold
from app.figures.algorithms import kernel
from app.figures.hardware import unchecked
from app.figures.tables import scrolled, table
from app.figures.units import share_text
from engine.model.fitted import (
    COUNTED,
    DRAM,
    DRAWN_DRAM,
    DRAWN_L2,
    DRAWN_REQUESTS,
    DRAWN_TIMES,
    FITS,
    SWEPT,
    TIMED,
)
from engine.problem.hardware import Gpu
from engine.recordings.recording import Recording
from engine.studies.model_errors import ModelError, errors, newest

LABEL = "What was fitted, and how far is the model off elsewhere?"
ROWS = {
    TIMED: "time in its own blocks",
    SWEPT: "time over sizes of blocks",
    COUNTED: "time under the profiler",
    DRAM: "DRAM reads beyond the compulsory ones",
    DRAWN_TIMES: "time, of calls drawn by lot",
    DRAWN_DRAM: "all DRAM reads, of the same",
    DRAWN_L2: "bytes from L2 to the SMs, of the same",
    DRAWN_REQUESTS: "bytes that tiles request, of the same",
}
OFF = {
    DRAWN_TIMES: "times are off",
    DRAWN_DRAM: "all DRAM reads",
    DRAWN_L2: "bytes from L2 to the SMs",
    DRAWN_REQUESTS: "bytes that tiles request, from L2 or L1,",
}
SET = ("constants", "set on an H200's rows of", "kernels")
UNWRITTEN = (
    "Where no head dimension is named, nobody wrote down which rows were looked at, so all of them count "
    "as having set the constant. What L1 keeps was set on 97 calls of FlashAttention-1 in no recording, "
    "and how far unfused tiles stray from their turn on reads from L2, recorded ones included. How "
    "gradually bytes leave L2 was set on recorded rows, on two scans and on 21 calls on an H100, but with "
    "the errors of all four sets of calls drawn by lot in sight. The third showed that blocks of "
    "FlashAttention-1 on one SM wait at the same time, and that grouped heads, short windows and ragged "
    "rows of unfused attention were off; scans of such calls mended that, and its worst call's shape is in "
    "one of them. The fourth showed that rows which FlashAttention-1 rewrites leave L2 before it is full, "
    "and that registers spill in small blocks at d 256: which lines leave L2, and what "
    "compiled code spills, mended that. How long FlashAttention-1 waits was then set anew on recorded "
    "rows, with the errors of all four sets in sight. All recorded rows were measured anew after the first "
    "constants were set. Nothing was set on an H100's recording. The calls drawn by lot on it showed that "
    "FlashAttention-1 was modelled as too slow, and scans on an H200 that are in no recording showed why: "
    "how long it waits and works was set anew on recorded rows and on 182 calls of these scans. How the time "
    "of HBM adds to FlashAttention-2's was set anew on recorded rows. What registers spill was counted in "
    "compiled code. Another call on an H100 showed that keys push out no rows of FlashAttention-1 that are "
    "still in use; no constant was set for that. A call of the ninth set showed that blocks "
    "of a launch go to SMs in another order than in turn, which traces of both GPUs then told. How long each "
    "kernel waits was set anew after that, on recorded rows and on some 300 calls on H200s that are in no "
    "recording, with the errors of all nine sets in sight; calls on H100s set nothing."
)
HEAD = ("kernel", "what was recorded", "these rows", "count", "median error", "worst error")


def show(page: str, recording: Recording | None, gpu: Gpu) -> None:
    """A fold with the table; each page has its own."""
    if recording is not None:
        fold(f"{page} fitted", partial(_draw, recording, gpu), LABEL)


def _draw(recording: Recording, gpu: Gpu) -> None:
    found = errors(recording)
    if not found:
        st.caption(f"The model knows no {recording.device.gpu}, so its rows judge nothing.")
        return
    st.markdown(" ".join((_sentence(found, recording), *_drawn(recording))))
    rows = [_cells(one) for one in found if one.rows]
    st.html(scrolled(table(HEAD, rows, words=(0, 1, 2), title="Errors of the model by what was fitted"), 360))
    st.html(
        table(SET, _what_was_set(), words=(0, 1, 2), title="Rows that constants of the model were set on")
    )
    st.caption(UNWRITTEN)
    if words := unchecked(gpu):
        st.caption(words)


def _sentence(found: tuple[ModelError, ...], recording: Recording) -> str:
    """The error on what was left out, all kernels together."""
    last = found[-1]
    if last.rows:
        return "Constants of the model were set on every row of this recording, so none of them judges it."
    times = "time" if last.count == 1 else "times"
    return (
        f"On the {last.count} {times}, {recording.origin}, on which no constant of the model was set, it is "
        f"off by {share_text(last.median, 1)} in the median and {share_text(last.worst)} at worst. It "
        "simulates each of these rows now."
    )


def _drawn(recording: Recording) -> Iterator[str]:
    """The error on the newest calls drawn by lot, in a sentence or two, where there are some."""
    if last := newest(recording.device.gpu):
        *off, at_last = (
            f"{OFF[one.rows]} by {share_text(one.median, 1)} in the median "
            f"and {share_text(one.worst, 1)} at worst"
            for one in last
        )
        yield (
            f"Of the newest {last[0].count} calls drawn by lot {', '.join(off)}, and {at_last}. They set no "
            "constant and were opened when the model stood."
        )


def _cells(one: ModelError) -> list[str]:
    role = "set constants" if one.fitted else "were left out"
    shares = (share_text(one.median, 1), share_text(one.worst, 1))
    return [kernel(one.algorithm), ROWS[one.rows], role, str(one.count), *shares]


def _what_was_set() -> list[list[str]]:
    """Which constants were set on which rows, a line each."""
    rows: dict[str, list[str]] = {}
    names: dict[str, list[str]] = {}
    for fit in FITS:
        dims = "" if fit.head_dims is None else f", d {', '.join(map(str, fit.head_dims))}"
        rows.setdefault(fit.constants, []).append(f"{ROWS[fit.rows]}{dims}")
        names.setdefault(fit.constants, []).append(kernel(fit.algorithm))
    return [
        [what, "; ".join(dict.fromkeys(of)), ", ".join(dict.fromkeys(names[what]))]
        for what, of in rows.items()
    ]
