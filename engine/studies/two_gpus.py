"""Two GPUs side by side: what both were recorded to do, and what a scenario is modelled to take on each."""

from typing import NamedTuple

from engine.algorithms import FORWARD
from engine.experiment import Experiment
from engine.recordings.file import is_of, recordings
from engine.recordings.recording import Recording, identity
from engine.recordings.rows import nearest_shape, timings_of
from engine.studies.survey import seconds_over_length

LENGTHS = 1024, 4096, 16384, 65536  # keys


class OnBoth(NamedTuple):
    """One call on two GPUs: who ran it, its keys, seconds on each, and whether these were recorded."""

    label: str
    keys: int
    seconds: tuple[float, float]
    recorded: bool

    @property
    def ratio(self) -> float:
        """How many times as long the first takes."""
        return self.seconds[0] / self.seconds[1]


def of_hardware(key: str) -> Recording | None:
    """The newest recording of a GPU by its key; None where there is none."""
    return next((one for one in recordings() if is_of(one, key)), None)


def modelled_on(experiment: Experiment, keys: tuple[str, str]) -> list[OnBoth]:
    """The scenario's algorithm over the length."""
    times = (seconds_over_length(experiment.changed(hardware=key), LENGTHS) for key in keys)
    both = zip(LENGTHS, zip(*times, strict=True), strict=True)
    return [OnBoth(experiment.record.label, length, seconds, False) for length, seconds in both]


def recorded_on(experiment: Experiment, keys: tuple[str, str]) -> list[OnBoth]:
    """What both GPUs were recorded with, forward, at the recorded shape nearest to the scenario."""
    one, other = map(of_hardware, keys)
    if one is None or other is None or (shape := nearest_shape(one, experiment)) is None:
        return []
    there = {identity(row): row for row in timings_of(other, *shape, FORWARD) if row.times}
    return [
        OnBoth(row.label, row.problem.seq_kv, (row.times.p50, there[identity(row)].times.p50), True)
        for row in timings_of(one, *shape, FORWARD)
        if row.times and identity(row) in there
    ]
