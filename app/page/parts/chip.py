"""The model beside the chip's own counters: of all recorded calls on Agreement, of the nearest on Traffic."""

import streamlit as st

from app.elements import chart, numbers
from app.figures.algorithms import kernel
from app.figures.colours import Palette
from app.figures.recorded import counters
from app.figures.units import bytes_in_mb, bytes_range_text, bytes_text, digits, ratio_text, share_text
from engine.experiment import Experiment
from engine.recordings.counters import RecordedCounters, nearest_counters, recorded_counters
from engine.recordings.recording import Recording
from engine.studies.counter_gaps import FETCHED_AGAIN, SERVED, Gaps, gaps, in_range, l1_serves, left_in_cache

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


def show(recording: Recording, colours: Palette) -> None:
    """The model against the GPU's own counters, one recorded scenario a point and a line."""
    rows = recorded_counters(recording)
    if not rows:
        return
    st.markdown(
        f"{len(rows)} scenarios were {recording.origin}; the model simulates each of them now. {EMPTIED}"
    )
    st.caption(
        f"In {in_range(rows)} of {len(rows)} scenarios the recorded DRAM reads lie in the model's range. It "
        "holds what an L2 that is 15% larger or smaller would read, 3% to either side, as two readings of a "
        "counter differ, and registers that threads may put aside. Pages tell it where that is much more. "
        f"{_missed(rows)}"
    )
    kinds = ("read", "Bytes from L2 to the SMs"), ("dram_read", "Bytes read from DRAM")
    for column, (real, title) in zip(st.columns(2, gap="medium"), kinds, strict=True):
        with column:
            st.markdown(f"**{title}**")
            figure = counters(rows, real, f"modelled_{real}", recording.origin, colours)
            chart(figure, f"{real.replace('_', ' ')}: recorded over modelled")
    numbers(COUNTERS, [_cells(row) for row in rows], "Modelled and recorded bytes", height=330)


def _cells(row: RecordedCounters) -> list[str]:
    cells = [row.what, bytes_text(row.requested_read)]
    for modelled, real in ((row.modelled_read, row.read), (row.modelled_dram_read, row.dram_read)):
        cells += [bytes_text(modelled), bytes_text(real), ratio_text(modelled, real, 3)]
    return [*cells, *map(bytes_text, (row.modelled_dram_written, row.dram_written, row.left_in_cache))]


def _missed(rows: list[RecordedCounters]) -> str:
    """What the counters do not see, and the model does."""
    serving = [kernel(name) for name in l1_serves(rows)]
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


def show_bytes(recording: Recording, experiment: Experiment) -> None:
    """The bytes of the scenario, or of the recorded one nearest to it, at every level; why they differ."""
    found = nearest_counters(recording, experiment) or nearest_counters(recording, experiment, sampled=True)
    if found is None:
        return
    one, same = found
    st.subheader("The same bytes on the chip", anchor=False)
    which = one.what if same else f"Nearest recorded scenario: {one.what}"
    st.markdown(f"**{which}**, {recording.origin}")
    left, right = st.columns([1.1, 1], gap="large")
    bytes_ = one.simulation.traffic
    requested = bytes_.requested
    rows = [
        ("requested by tiles, counted by the scheduler", requested.total_read, requested.total_written),
        *([("requested by tiles, recorded", one.requested, one.written)] if one.requested else []),
        ("between L2 and the SMs, modelled", one.modelled_read, requested.total_written),
        *([] if one.row.sampled else [("between L2 and the SMs, recorded", one.read, one.written)]),
        ("compulsory, counted", bytes_.compulsory.total_read, bytes_.compulsory.total_written),
        ("DRAM, modelled with the kernel's instructions", one.modelled_dram_read, one.modelled_dram_written),
        ("DRAM, recorded", one.dram_read, one.dram_written),
    ]
    with left:
        cells = [[name, bytes_text(read), bytes_text(written)] for name, read, written in rows]
        numbers(["all heads", "read", "written"], cells, "Bytes at every level")
    with right:
        st.markdown("\n".join(f"- {sentence}" for sentence in _gaps(one)))


def _gaps(one: RecordedCounters) -> list[str]:
    """Why each number differs from the one before it, in a sentence each."""
    if one.row.sampled:
        return [
            "The chip sampled itself, as there was no Nsight Compute: all kernels of the call together, one "
            "after another, and what they left in L2 included. It does not tell the bytes between L2 and SMs."
        ]
    found = gaps(one)
    off = f"The modelled DRAM reads differ from the recorded ones by {_signed(found.model_off)}."
    if one.simulation.traffic.dram_range.is_wide:
        off += f" The model is sure of them only from {bytes_range_text(*one.dram_read_range)}."
    return [_requests(found), _reads(one, found), _writes(one), off]


def _signed(share: float) -> str:
    text = share_text(abs(share), 1)
    return text if text.startswith("<") else f"{'+' if share >= 0 else '−'}{text}"


def _requests(found: Gaps) -> str:
    off = f"The modelled bytes from L2 differ from the recorded ones by {_signed(found.from_l2_off)}."
    if found.l1_serves:
        share = f"{found.l1_share:.0%}"
        return f"The SMs' L1 caches answer {share} of what the tiles request; the rest comes from L2. {off}"
    if found.l1_share < -SERVED:
        return f"L2 gives whole sectors of 32 bytes, so more arrives than the tiles request. {off}"
    return "The bytes we count from the schedule equal the L2-to-SM bytes the hardware counters report."


def _reads(one: RecordedCounters, found: Gaps) -> str:
    """Why DRAM delivers less than the SMs receive."""
    again = found.dram_over_compulsory
    kept = bytes_text(one.experiment.gpu.l2_effective_bytes)
    keys = "K and V of a head" + " within the window" * (one.experiment.problem.mask.window is not None)
    often = f"DRAM delivers {digits(again)} times the compulsory bytes"
    if one.experiment.record.unfused:
        return (
            "Every kernel reads its inputs from DRAM, because one kernel writes S and P, "
            f"{bytes_text(one.scores_bytes)} together, and the next reads them. {EMPTIED}"
        )
    if one.experiment.record.pipeline.returning:
        rows = "Q, O, m and l pass by once per key block. From one block to the next, "
        if again < FETCHED_AGAIN:
            return f"{rows}L2 keeps those of all heads under way, so DRAM delivers them once."
        return f"{rows}those of all heads under way do not fit L2, so {often}."
    if again < FETCHED_AGAIN:
        return (
            f"L2 answers {share_text(found.l2_share, 1)} of the requests, because {keys} take "
            f"{bytes_text(one.keys_bytes)} and L2 keeps about {kept} of what all SMs share (modelled)."
        )
    return (
        f"{keys} take {bytes_text(one.keys_bytes)}. With everything else under way they exceed the {kept} "
        f"that L2 keeps of what all SMs share (modelled), so later waves fetch them again: {often}."
    )


def _writes(one: RecordedCounters) -> str:
    kernels = len(one.row.kernels)
    ended, whole = ("the kernel", "") if kernels == 1 else (f"each of the {kernels} kernels", " in all")
    return (
        f"When {ended} ended, {bytes_text(one.left_in_cache)} of output{whole} were still in L2 and had not "
        "been written back. The DRAM counter misses them; the model includes them."
    )
