"""The model beside the chip's own counters: on the Agreement page."""

from __future__ import annotations

import streamlit as st

from app.elements import chart
from app.figures.algorithms import kernel
from app.figures.colours import Palette
from app.figures.recorded import counters
from app.figures.tables import scrolled, table
from app.figures.units import bytes_in_mb, bytes_text, ratio_text, share_text
from engine.recordings.counters import RecordedCounters, recorded_counters
from engine.recordings.recording import Recording
from engine.studies.counter_gaps import deviations, left_in_cache

COUNTERS = (
    "scenario",
    "requested, counted",
    *("L2 to SMs, modelled", "recorded", "ratio"),
    *("DRAM read, modelled", "recorded", "ratio"),
    *("DRAM written, modelled", "recorded", "left in L2"),
)
EMPTIED = (
    "The profiler empties the caches before every kernel, and so does the model: its DRAM reads include a "
    "kernel's instructions, once."
)
BEYOND = (
    "Most fused calls read the compulsory bytes alone, which any model has right. The last columns are of "
    "what the others read beyond those."
)
RANGE = (
    "The range holds what an L2 that is 15% larger or smaller would read, 3% to either side, as two readings "
    "of a counter differ, and registers that threads may put aside. Pages tell it where that is much more."
)
DEVIATIONS = (
    "kernel",
    *("L2 to SMs: median error", "worst error"),
    *("DRAM reads: median error", "worst error", "in range"),
    *("beyond compulsory: calls", "median error", "worst error"),
)


def show(recording: Recording, colours: Palette) -> None:
    """The model against the GPU's own counters, one recorded scenario a point and a line."""
    rows = recorded_counters(recording)
    if not rows:
        return
    st.markdown(
        f"{len(rows)} scenarios were {recording.origin}; the model simulates each of them now. {EMPTIED}"
    )
    st.html(
        scrolled(table(DEVIATIONS, _deviations(rows), title="Errors of the model against the counters"), 220)
    )
    st.caption(f"{BEYOND} {RANGE} {_missed(rows)}")
    requested, dram = st.columns(2, gap="medium")
    with requested:
        st.markdown("**Bytes from L2 to the SMs**")
        _counters(rows, "read", "modelled_read", recording, colours)
    with dram:
        st.markdown("**Bytes read from DRAM**")
        _counters(rows, "dram_read", "modelled_dram_read", recording, colours)
    st.html(
        scrolled(table(COUNTERS, [_cells(row) for row in rows], title="Modelled and recorded bytes"), 330)
    )


def _counters(
    rows: list[RecordedCounters], real: str, modelled: str, recording: Recording, colours: Palette
) -> None:
    figure = counters(rows, real, modelled, recording.origin, colours)
    chart(figure, f"{real.replace('_', ' ')}: recorded over modelled")


def _cells(row: RecordedCounters) -> list[str]:
    cells = [row.what, bytes_text(row.requested_read)]
    for modelled, real in ((row.modelled_read, row.read), (row.modelled_dram_read, row.dram_read)):
        cells += [bytes_text(modelled), bytes_text(real), ratio_text(modelled, real, 3)]
    return [*cells, *map(bytes_text, (row.modelled_dram_written, row.dram_written, row.left_in_cache))]


def _deviations(rows: list[RecordedCounters]) -> list[list[str]]:
    """How far the model is off typically, and at most, a line for each algorithm."""
    return [
        [
            kernel(name),
            *_off(*off.requested),
            *_off(*off.dram),
            f"{off.within} of {off.calls}",
            str(off.exceeding),
            *(_off(*off.excess) if off.excess else ("", "")),
        ]
        for name, off in deviations(rows).items()
    ]


def _off(most: float, typical: float) -> tuple[str, str]:
    return share_text(typical, 1), share_text(most, 1)


def _missed(rows: list[RecordedCounters]) -> str:
    """What the counters do not see, and the model does."""
    serving = [kernel(name) for name, off in deviations(rows).items() if off.l1_serves]
    l1 = (
        f"The scheduler counts what tiles request. For {' and '.join(serving)} the L1 cache answers some of "
        "it, which is modelled, not counted: rows that are read again, and rows that neighbours share. "
        "Registers that spill are not in the scheduler's count: they add up to 4% to FlashAttention-2's "
        "bytes at d 256 in 64 × 64 blocks, and up to 59% in 128 × 128, where the model has them. "
        if serving
        else ""
    )
    typical, most = left_in_cache(rows)
    return (
        f"{l1}The DRAM counter misses output that is still in L2 when a kernel ends: "
        f"{bytes_in_mb(typical)} per kernel in the median, {bytes_in_mb(most)} at worst. The model "
        "includes it."
    )
