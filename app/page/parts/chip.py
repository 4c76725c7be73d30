"""The model beside the chip's own counters: on the Agreement, the Traffic and the Speed page."""

from __future__ import annotations

import streamlit as st

from app.figures.algorithms import kernel
from app.figures.colours import Palette
from app.figures.recorded import counters
from app.figures.roofline import both_levels
from app.figures.tables import scrolled, table
from app.figures.units import (
    bytes_in_mb,
    bytes_range_text,
    bytes_text,
    digits,
    ratio_text,
    scaled,
    share_text,
)
from app.page.parts import unsure
from app.page.parts.elements import chart
from engine.experiment import Experiment
from engine.model.roofline import roofline
from engine.model.simulation import simulate
from engine.problem.hardware import Gpu, gpu_named
from engine.recordings.counters import (
    RecordedCounters,
    modelled_shares,
    nearest_counters,
    recorded_counters,
    rivals,
    roofline_points,
)
from engine.recordings.recording import Recording
from engine.studies.counter_gaps import (
    FETCHED_AGAIN,
    SERVED,
    Gaps,
    busiest,
    deviations,
    gaps,
    left_in_cache,
)

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
UNITS = {
    "tensor core": "tensor cores",
    "exp": "exp and float32",
    "L2": "L2 to SMs",
    "HBM": "HBM",
    "issue": "issue slots",
    "launch": "launch and waiting",
    "tail": "tail: SMs idle",
}
BEYOND = (
    "Most fused calls read the compulsory bytes alone, which any model has right. The last columns are of "
    "what the others read beyond those."
)
PEAKS = (
    "as a share of the same peaks, those of the SM's units at the clock they had (exponentials without "
    "float32)."
)
BOUNDS = {
    **UNITS,
    "exp": "exponentials and float32 arithmetic",
    "L2": "L2-to-SM bandwidth",
    "HBM": "HBM bandwidth",
    "tail": "the tail, in which SMs are idle",
}
DEVIATIONS = (
    "kernel",
    *("L2 to SMs: median error", "worst error"),
    *("DRAM reads: median error", "worst error"),
    *("beyond compulsory: calls", "median error", "worst error"),
)


def agreement(recording: Recording, colours: Palette) -> None:
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
    st.caption(f"{BEYOND} {unsure.of_counters(recording)} {unsure.of_calls(rows)} {_missed(rows)}")
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


def traffic(recording: Recording, experiment: Experiment) -> None:
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
        ("between L2 and the SMs, modelled", one.modelled_read, requested.total_written),
        ("between L2 and the SMs, recorded", one.read, one.written),
        ("compulsory, counted", bytes_.compulsory.total_read, bytes_.compulsory.total_written),
        ("DRAM, modelled", one.modelled_dram_read, one.modelled_dram_written),
        ("DRAM, recorded", one.dram_read, one.dram_written),
    ]
    with numbers:
        cells = [[name, bytes_text(read), bytes_text(written)] for name, read, written in rows]
        st.html(table(["all heads", "read", "written"], cells, title="Bytes at every level"))
    with reasons:
        st.markdown("\n".join(f"- {sentence}" for sentence in _gaps(one)))


def bounds(recording: Recording | None, experiment: Experiment) -> None:
    """The scenario's bottleneck: modelled, and how busy the counters say each unit was."""
    simulation = simulate(experiment)
    found = nearest_counters(recording, experiment) if recording else None
    bound = BOUNDS[simulation.modelled.bound]
    shares = modelled_shares(simulation)
    if alike := rivals(simulation):
        first, second = (f"{share_text(shares[unit])} of its peak" for unit in alike)
        bound += f", at {first}; {BOUNDS[alike[1]]} is as near, at {second}"
    st.markdown(f"**Bottleneck (modelled)**: {bound}")
    columns = [("modelled", shares)]
    if found is not None:
        one, same = found
        columns += [] if same else [("nearest", modelled_shares(one.simulation))]
        columns.append(("recorded", one.utilisation))
    rows = [
        [name, *(_percent(shares.get(unit)) for _, shares in columns)]
        for unit, name in UNITS.items()
        if any(shares.get(unit) is not None for _, shares in columns)
    ]
    st.html(table(["busy", *(name for name, _ in columns)], rows, title="Busy share of each unit"))
    said = (
        "Each row is the share of its peak that a unit reaches over the whole run. Modelled: the time that "
        f"the unit would need at its peak ÷ total time; L2's peak is {_cache_peak(experiment.gpu)}."
    )
    if shares["L2"] > shares[simulation.modelled.bound]:
        said += " Copies from L2 run ahead of the products here, so they delay nothing."
    if found is not None:
        said += (
            "" if same else f" Nearest: the model of the recorded scenario nearest to this one, {one.what}."
        )
        whose = "for this scenario" if same else "for that one"
        said += f" Recorded: Nsight counters {whose}, {recording.origin}, {PEAKS}"
        said += f" {_busiest(one)}"
    st.caption(said)


def _cache_peak(gpu: Gpu) -> str:
    return f"{scaled(gpu.cache_bytes_per_second, 'B/s')} ({gpu.sources['L2 to SMs']})"


def rooflines(recording: Recording, experiment: Experiment, colours: Palette) -> None:
    """Counted calls like the scenario under the roofs of L2 and of HBM."""
    gpu, points = gpu_named(recording.device.gpu), roofline_points(recording, experiment)
    if gpu is None or not points:
        return
    problem = experiment.problem
    mask = "no mask" if problem.mask.looks_ahead else "masked"
    st.markdown(f"**Roofline of L2 and HBM**: d = {problem.head_dim}, {mask}, {recording.origin}")
    figure = both_levels(roofline(gpu, points[0]["dtype"]), points, recording.origin, colours)
    chart(figure, "Recorded roofline at L2 and HBM")
    st.caption(
        "Each line joins the two levels of one call; its length is what L2 saves. Colours are those of the "
        "recorded curves; times are of kernels under the profiler."
    )


def _busiest(one: RecordedCounters) -> str:
    """The unit that the counters saw closest to its peak."""
    unit, share = busiest(one)
    return f"The counters saw {UNITS[unit]} closest to peak, at {share:.0%}."


def _percent(share: float | None) -> str:
    return "" if share is None else share_text(share)


def _which(one: RecordedCounters, same: bool) -> str:
    return one.what if same else f"Nearest recorded scenario: {one.what}"


def _gaps(one: RecordedCounters) -> list[str]:
    """Why each number differs from the one before it, in a sentence each."""
    found = gaps(one)
    off = f"The modelled DRAM reads differ from the recorded ones by {_signed(found.model_off)}."
    if one.is_unsure:
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
    kept = bytes_text(one.kept_bytes)
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
        "Registers that spill are in neither number: up to 2% of FlashAttention-2's bytes at d 256 in "
        "64 × 64 blocks. "
        if serving
        else ""
    )
    typical, most = left_in_cache(rows)
    return (
        f"{l1}The DRAM counter misses output that is still in L2 when a kernel ends: "
        f"{bytes_in_mb(typical)} per kernel in the median, {bytes_in_mb(most)} at worst. The model "
        "includes it."
    )
