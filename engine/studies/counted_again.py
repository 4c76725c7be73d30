"""How far a GPU's counters repeat: the recorded calls, beside the same ones counted in another session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from engine.recordings.counters import RecordedCounters, recorded_counters
from engine.recordings.file import COUNTED_BEFORE, recordings
from engine.recordings.recording import Recording, identity
from engine.studies.counter_gaps import excess, gaps


@dataclass(frozen=True)
class Scatter:
    """By how much two readings of a counter differ, as shares of the smaller one.

    Attributes:
        count: calls that were read twice.
    """

    count: int
    median: float
    most: float


def dram_scatter(recording: Recording) -> Scatter | None:
    """Of the bytes read from DRAM, by calls that read more than the compulsory ones."""
    return _scatter(recording, "dram_read", lambda row: excess(row) is not None)


def l1_scatter(recording: Recording) -> Scatter | None:
    """Of the bytes from L2 to the SMs, by calls of which L1 serves a part."""
    return _scatter(recording, "tile_read", lambda row: gaps(row).l1_serves)


def _scatter(
    recording: Recording, counter: str, counts: Callable[[RecordedCounters], bool]
) -> Scatter | None:
    before = {
        identity(row): row
        for each in recordings(COUNTED_BEFORE)
        if each.device.gpu == recording.device.gpu
        for row in each.counters
    }
    apart = []
    for one in recorded_counters(recording):
        twin = before.get(identity(one.row))
        if twin is not None and counts(one):
            pair = one.row.total(counter), twin.total(counter)
            apart.append(max(pair) / min(pair) - 1)
    return Scatter(len(apart), median(apart), max(apart)) if apart else None
