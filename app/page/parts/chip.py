"""The model beside the chip's own counters: of all recorded calls on Agreement, of the nearest on Traffic."""

import streamlit as st

from app.elements import numbers, plot
from app.figures.agreement import counters
from app.figures.colours import Palette
from app.figures.units import bytes_range_text, bytes_text
from engine.experiment import Experiment
from engine.recordings.counters import nearest_counters, recorded_counters
from engine.recordings.recording import Recording
from engine.studies.model_errors import in_range

EMPTIED = (
    "The profiler empties the caches before every kernel, and so does the model: its DRAM reads include a "
    "kernel's instructions, once."
)
WHY = (  # of numbers that differ from one level to the next
    "The L1 caches of the SMs answer some of what FlashAttention-1 and unfused attention request: rows that "
    "are read again, and rows that neighbours share. It is modelled, not counted, and registers that spill "
    "are in no count. What L2 does not hold of K and V DRAM delivers again. Output that still lies in L2 "
    "when a kernel ends is in the model's writes and not in the counter's."
)


def show(recording: Recording, colours: Palette) -> None:
    """The model against the GPU's own counters, one recorded scenario a point."""
    rows = recorded_counters(recording)
    if not rows:
        return
    st.markdown(
        f"{len(rows)} scenarios were {recording.origin}; the model simulates each of them now. {EMPTIED}"
    )
    st.caption(
        f"In {in_range(rows)} of {len(rows)} scenarios the recorded DRAM reads lie in the model's range: "
        f"what an L2 that is 15% larger or smaller would read, and 3% to either side. {WHY}"
    )
    kinds = {"read": "Bytes from L2 to the SMs", "dram_read": "Bytes read from DRAM"}
    for column, (real, title) in zip(st.columns(2, gap="medium"), kinds.items(), strict=True):
        plot(title, counters(rows, real, f"modelled_{real}", colours), where=column)


def show_bytes(recording: Recording, experiment: Experiment) -> None:
    """The bytes of the scenario, or of the recorded one nearest to it, at every level; why they differ."""
    found = nearest_counters(recording, experiment) or nearest_counters(recording, experiment, sampled=True)
    if found is None:
        return
    one, same = found
    st.subheader("The same bytes on the chip", anchor=False)
    which = one.what if same else f"Nearest recorded scenario: {one.what}"
    st.markdown(f"**{which}**, {recording.origin}")
    bytes_, sampled = one.simulation.traffic, one.row.sampled
    requested = bytes_.requested
    rows = {
        "requested by tiles, counted by the scheduler": (requested.total_read, requested.total_written),
        **({"requested by tiles, recorded": (one.requested, one.written)} if one.requested else {}),
        "between L2 and the SMs, modelled": (one.modelled_read, requested.total_written),
        **({} if sampled else {"between L2 and the SMs, recorded": (one.read, one.written)}),
        "compulsory, counted": (bytes_.compulsory.total_read, bytes_.compulsory.total_written),
        "DRAM, modelled with the kernel's instructions": (one.modelled_dram_read, one.modelled_dram_written),
        "DRAM, recorded": (one.dram_read, one.dram_written),
    }
    told = f"{EMPTIED} {WHY}"
    if sampled:
        told = (
            "The chip sampled itself, as there was no Nsight Compute: all kernels of the call together, one "
            "after another, and what they left in L2 included. It does not tell the bytes between L2 and SMs."
        )
    elif bytes_.dram_range.is_wide:
        told += f" The model is sure of DRAM's reads only from {bytes_range_text(*one.dram_read_range)}."
    left, right = st.columns([1.1, 1], gap="large")
    lines = [
        {"all heads": name, "read": bytes_text(read), "written": bytes_text(written)}
        for name, (read, written) in rows.items()
    ]
    numbers(lines, "Bytes at every level", where=left)
    right.caption(told)
