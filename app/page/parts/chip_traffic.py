"""A recorded scenario's bytes at every level beside the model's, and why they differ: on the Traffic page."""

from __future__ import annotations

import streamlit as st

from app.figures.tables import table
from app.figures.units import bytes_range_text, bytes_text, digits, share_text
from app.page.parts.chip import EMPTIED
from engine.experiment import Experiment
from engine.recordings.counters import RecordedCounters, nearest_counters
from engine.recordings.recording import Recording
from engine.studies.counter_gaps import FETCHED_AGAIN, SERVED, Gaps, gaps


def show(recording: Recording, experiment: Experiment) -> None:
    """The bytes of the scenario, or of the recorded one nearest to it, at every level; why they differ."""
    found = nearest_counters(recording, experiment)
    if found is None:
        return
    one, same = found
    st.subheader("The same bytes on the chip", anchor=False)
    st.markdown(f"**{_which(one, same)}**, {recording.origin}")
    numbers, reasons = st.columns([1.1, 1], gap="large")
    bytes_ = one.simulation.traffic
    requested = bytes_.requested
    rows = [
        ("requested by tiles, counted by the scheduler", requested.total_read, requested.total_written),
        *([("requested by tiles, recorded", one.requested, one.written)] if one.requested else []),
        ("between L2 and the SMs, modelled", one.modelled_read, requested.total_written),
        ("between L2 and the SMs, recorded", one.read, one.written),
        ("compulsory, counted", bytes_.compulsory.total_read, bytes_.compulsory.total_written),
        ("DRAM, modelled with the kernel's instructions", one.modelled_dram_read, one.modelled_dram_written),
        ("DRAM, recorded", one.dram_read, one.dram_written),
    ]
    with numbers:
        cells = [[name, bytes_text(read), bytes_text(written)] for name, read, written in rows]
        st.html(table(["all heads", "read", "written"], cells, title="Bytes at every level"))
    with reasons:
        st.markdown("\n".join(f"- {sentence}" for sentence in _gaps(one)))


def _which(one: RecordedCounters, same: bool) -> str:
    return one.what if same else f"Nearest recorded scenario: {one.what}"


def _gaps(one: RecordedCounters) -> list[str]:
    """Why each number differs from the one before it, in a sentence each."""
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
    ended, whole = (
        ("the kernel ended", "") if kernels == 1 else (f"each of the {kernels} kernels ended", " in all")
    )
    return (
        f"When {ended}, {bytes_text(one.left_in_cache)} of output{whole} were still in L2 and had not been "
        "written back. The DRAM counter misses them; the model includes them."
    )
