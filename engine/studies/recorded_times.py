"""What the newest recording of a GPU has of exactly one problem: forward times of every implementation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from engine.algorithms import FORWARD
from engine.problem.problem import Problem
from engine.recordings.file import is_of, recordings


@dataclass(frozen=True)
class RecordedTimes:
    """Median seconds by provider, and where and when they were recorded; `providers` are all there are."""

    origin: str
    seconds: Mapping[str, float]
    providers: tuple[str, ...]


@lru_cache(maxsize=64)
def recorded_times(problem: Problem, hardware: str) -> RecordedTimes:
    """The forward times of a problem on the GPU of a preset's key; none where it was not recorded."""
    recording = next((each for each in recordings() if is_of(each, hardware)), None)
    if recording is None:
        return RecordedTimes("", {}, ())
    rows = [row for row in recording.timings if row.direction == FORWARD]
    times = {row.provider: row.times.p50 for row in rows if row.problem == problem and row.times is not None}
    return RecordedTimes(recording.origin, times, tuple(dict.fromkeys(row.provider for row in rows)))
