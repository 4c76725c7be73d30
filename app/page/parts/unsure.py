"""What is sure only within a range, the modelled DRAM bytes and the counters themselves: a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from app.figures.algorithms import short
from app.figures.units import bytes_range_text, share_text
from engine.model.l2_range import is_wide
from engine.model.simulation import Simulation
from engine.recordings.counters import RecordedCounters
from engine.recordings.recording import Recording
from engine.schedule.bytes import Bytes
from engine.studies.counted_again import dram_scatter, l1_scatter
from engine.studies.counter_gaps import within_ranges

WHY = "Here little decides whether L2 still holds what tiles need again, so the modelled bytes across HBM are"
AGAIN = (
    "Counters themselves scatter: between two sessions the DRAM reads of {} such calls differ by {} in the "
    "median and by {} at most."
)
AGAIN_BY_L1 = (
    "The bytes from L2 of {} calls that L1 serves in part differ by {} in the median and by {} at most "
    "between two sessions."
)


def across_hbm(simulations: Iterable[Simulation]) -> str:
    """Of those that the model is not sure of, between what their DRAM bytes lie; empty if it is of all."""
    return within({short(one.experiment.algorithm): one.dram_range for one in simulations})


def within(ranges: Mapping[str, tuple[Bytes, Bytes]]) -> str:
    """The same of ranges by the names of what they are of."""
    unsure = {name: found for name, found in ranges.items() if is_wide(*found)}
    if not unsure:
        return ""
    ends = ", ".join(
        f"{name} {bytes_range_text(*(each.total for each in found))}" for name, found in unsure.items()
    )
    return f"{WHY} sure only within a range: {ends}."


def of_calls(rows: Sequence[RecordedCounters]) -> str:
    """How many calls the model is not sure of, and how many of these read what it says; empty if none."""
    found = within_ranges(rows)
    if found is None:
        return ""
    return (
        f"The model is sure of the reads of {found.calls} of these calls only within a range, because they "
        f"nearly fill L2 or their SMs lose step: it is {share_text(found.width)} of its lower end wide in "
        f"the median, and what {found.within} of them read lies in it. It was set so that this holds for "
        "nine of ten readings, of these calls and of scans of others."
    )


def of_counters(recording: Recording) -> str:
    """How far the counters themselves repeat, where that is known."""
    return " ".join(
        text.format(found.count, share_text(found.median, 1), share_text(found.most, 1))
        for text, found in ((AGAIN, dram_scatter(recording)), (AGAIN_BY_L1, l1_scatter(recording)))
        if found
    )
