"""The model of several GPUs beside what was recorded."""

from __future__ import annotations

from functools import lru_cache

import streamlit as st

from app.figures.tables import scrolled, table
from app.figures.units import seconds_text, share_text
from engine.algorithms import FORWARD
from engine.model.rates import SUSTAINED_FROM
from engine.recordings.cluster import ClusterTiming
from engine.recordings.recording import Recording
from engine.studies.recorded_clusters import Held, errors, held

TALL = 420  # pixels


def show(recordings: tuple[Recording, ...], found: tuple[Held, ...]) -> None:
    """How far the model is from what was recorded."""
    st.subheader("The model beside recorded figures", anchor=False)
    if not found:
        st.markdown("There is no recording of several GPUs to hold the model against.")
    for recording in recordings:
        _recorded(recording, tuple(one for one in found if one.recording is recording))


def _recorded(recording: Recording, found: tuple[Held, ...]) -> None:
    if not found:
        return
    gpus = max(one.row.gpus for one in found)
    st.markdown(f"**{recording.heading}**: {gpus} GPUs, and one alone; the model beside each")
    st.html(_table(recording))
    half, most = map(share_text, errors(found))
    st.caption(
        "Times are medians of the slowest GPU, in turns in one run, with the kernels of commit "
        f"{recording.device.commit[:7]}. The model is off by less than {half} in half of the rows, and by "
        f"less than {most} in 95% of them; what NVLink reaches in it comes from such GPUs. It has that the "
        f"card's power limit holds its clock down in calls of over {SUSTAINED_FROM * 1000:.0f} ms; it leaves "
        "out what the host takes to launch."
    )


@lru_cache(maxsize=8)
def _table(recording: Recording) -> str:
    """Every recorded row beside the model's."""
    head = (
        *("method", "tokens", "mask", "KV heads", "pass", "GPUs"),
        *("recorded", "efficiency", "modelled", "error", "note"),
    )
    found = held((recording,))
    modelled = {one.row.provider for one in found}
    rows = [_recorded_row(one) for one in found]
    beside = (row for row in recording.cluster if row.provider not in modelled)
    rows += [[*_about(row), *[""] * 3, row.skipped or ""] for row in beside]
    return scrolled(table(head, rows, words=(0, len(head) - 1)), TALL)


def _recorded_row(one: Held) -> list[str]:
    shared = one.row.gpus > 1 and one.efficiency
    efficiency = share_text(one.efficiency) if shared else ""
    error = _signed(one.error)
    return [*_about(one.row), efficiency, seconds_text(one.modelled), error, ""]


def _about(row: ClusterTiming) -> list[str]:
    """What was measured, and its median; nothing where there was none."""
    passed = "forward" if row.direction == FORWARD else "both"
    problem, mask = row.problem, "causal" if row.problem.mask.causal else "none"
    median = seconds_text(row.times.median) if row.times else ""
    return [row.label, f"{problem.seq_q:,}", mask, f"{problem.kv_heads}", passed, f"{row.gpus}", median]


def _signed(error: float) -> str:
    size = f"{abs(error):.1%}"
    sign = "" if size == "0.0%" else "+" if error > 0 else "−"
    return f"{sign}{size}"
