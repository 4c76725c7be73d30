"""The same work done twice, as a GPU's counters recorded it: with S and P stored in memory, and without."""

from dataclasses import dataclass
from math import log2
from operator import attrgetter

from engine.algorithms import FORWARD, flash2, standard
from engine.problem.problem import Problem
from engine.recordings.recording import Counters, Recording

SHOWN = Problem(seq_q=4096, seq_kv=4096, head_dim=128)  # the pair shown is the one recorded nearest to this
TENSORS = {  # by algorithm, of each kernel in turn: what it reads, and what it writes
    standard.ALGORITHM.key: (("QK", "S"), ("S", "P"), ("PV", "O")),
    flash2.ALGORITHM.key: (("QKV", "O"),),
}


@dataclass(frozen=True)
class SameWork:
    """Two recorded calls on one problem in the same blocks; bytes are those that crossed to DRAM."""

    recording: Recording
    stored: Counters
    fused: Counters

    problem = property(attrgetter("fused.problem"), doc="What both computed.")

    def times_less(self, name: str) -> float:
        """How many times less the fused call took of what the counters have under a name."""
        return self.stored.total(name) / self.fused.total(name)


def same_work(recording: Recording) -> SameWork | None:
    """The pair of calls to show; None where a recording has no two calls on one problem."""
    calls = {}
    for row in recording.counters:
        key = row.provider, (row.problem, row.block_q, row.block_kv)
        if row.direction == FORWARD and len(row.kernels) == len(TENSORS.get(row.provider, ())):
            calls.setdefault(key, row)
    pairs = [
        SameWork(recording, row, calls[flash2.ALGORITHM.key, what])
        for (provider, what), row in calls.items()
        if provider == standard.ALGORITHM.key and (flash2.ALGORITHM.key, what) in calls
    ]

    def away(pair: SameWork) -> tuple[float, ...]:
        problem = pair.problem
        length = abs(log2(problem.seq_kv / SHOWN.seq_kv)) + abs(log2(problem.head_dim / SHOWN.head_dim))
        return (problem.mask != SHOWN.mask, length)

    return min(pairs, key=away, default=None)
