"""What heads that share keys save a decoding step: bytes and time by the number of KV heads."""

from __future__ import annotations

import streamlit as st

from app.figures.tables import scrolled, table
from app.figures.units import bytes_text, heads_text, ratio_digits, seconds_text, times_text
from engine.experiment import Experiment
from engine.recordings.recording import Recording
from engine.studies.decoding import grouped, key_reads, recorded_reads, recorded_sharing


def show(decoding: Experiment, recording: Recording | None) -> None:
    """Bytes of K and V by the number of KV heads."""
    found, problem = grouped(decoding), decoding.problem
    reads = {heads: key_reads(one) for heads, one in found.items()}
    alone, now = reads[problem.heads], reads[problem.kv_heads]
    less = f"**{ratio_digits(alone, now)} times fewer bytes** to read for every token."
    if now == alone:
        less = "**nothing is shared yet.** Set fewer KV heads in the sidebar."
    said = f"{heads_text(problem.heads, problem.kv_heads)}: {less}"
    if problem.heads == 1:
        said = "One head has **nothing to share.** Set more heads in the sidebar."
    st.markdown(said)
    counted = {n: recording and recorded_reads(recording, one.experiment) for n, one in found.items()}
    rows = []
    for heads, one in found.items():
        row = counted[heads]
        rows.append(
            [
                _kind(heads, problem.heads),
                f"{heads}",
                bytes_text(reads[heads]),
                times_text(alone, reads[heads]),
                f"{one.experiment.tiling.splits}",
                seconds_text(one.modelled.seconds),
                bytes_text(row.total("dram_read")) if row else "not recorded",
            ]
        )
    head = ("", "KV heads", "K and V, counted", "saving", "splits", "time, modelled", "DRAM reads, recorded")
    st.html(scrolled(table(head, rows, title="Bytes and time by KV heads"), 360))
    where = f" The DRAM reads are the GPU's counters, {recording.origin}." if any(counted.values()) else ""
    st.caption(f"The numbers are for one token, with as many splits as the kernel chooses.{where}")
    if recording:
        _recorded(recording, decoding)


def _recorded(recording: Recording, decoding: Experiment) -> None:
    """How long the nearest recorded cache took with the most and the fewest KV heads."""
    found = recorded_sharing(recording, decoding)
    if found is None:
        return
    problem, plain = found.fewest.problem, found.most.problem
    times = [seconds_text(row.times.p50) for row in (found.most, found.fewest)]
    st.caption(
        f"{recording.heading}, {problem.seq_kv:,} keys, "
        f"d {problem.head_dim}: {problem.heads} heads take {times[0]} on {plain.kv_heads} KV heads and "
        f"{times[1]} on {problem.kv_heads}: {found.time_share:.0%} of the time for {found.bytes_share:.0%} "
        "of the bytes."
    )


def _kind(kv_heads: int, heads: int) -> str:
    if kv_heads == heads:
        return "each head has its own keys"
    return "all heads share one" if kv_heads == 1 else "grouped, as in the scenario"
