"""A bench: every implementation checked against float64, then timed in turns.

Without a GPU the kernels run in Triton's interpreter, and what that takes is known beforehand.
"""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from engine.algorithms import FORWARD
from engine.experiment import Experiment
from engine.measuring import clock
from engine.measuring.implementations import Implementation, input_bytes
from engine.measuring.machine import Machine
from engine.measuring.trial import Checked, Trial, attempt, in_turns
from engine.problem.bounds import key_bounds
from engine.problem.problem import Problem, Tiling
from engine.recordings.timing import Timing
from engine.studies.drawable import at_length, drawable

HEAVY = 8  # who takes more than this part of the memory is not timed in turns: allocating would be timed too
LONGEST_RECORDED = 0.6  # seconds per call, of what is recorded


@dataclass
class Bench:
    """A machine and what is timed on it; remembers how long each took, to foresee what takes too long."""

    machine: Machine
    implementations: list[Implementation]
    limit: float  # seconds per call; one that would take longer is not made
    repeats: clock.Repeats | None = None  # how often each is timed in turns; None leaves it to where it runs
    pace: dict[tuple, float] = field(default_factory=dict)

    def timings(
        self, problem: Problem, direction: str = FORWARD, tiling: Tiling | None = None
    ) -> list[Timing]:
        """A row for each implementation, with why not where there is no time.

        tiling: of the kernels that take blocks; without it they choose their own.
        """
        blocks = {"block_q": tiling.block_q, "block_kv": tiling.block_kv} if tiling else {}
        most, slow = (clock.available_bytes(self.cuda) or inf) / HEAVY, (clock.ON_CPU, clock.INTERPRETED)
        found, groups, trial, reason = {}, {}, None, None
        planned = zip(self.planned(problem, direction), self.entered(direction), strict=True)
        for row, one in planned:
            why = self._foreseen(one, problem, direction, tiling)
            if not (why or trial or reason):
                trial, reason = attempt(lambda: Trial.of(problem, self.cuda, direction), self.cuda)
            call = why or reason or trial.checked(one.prepare, **(blocks if one.takes_blocks else {}))
            found[row] = replace(row, skipped=call if isinstance(call, str) else None)
            if isinstance(call, Checked):
                alone = one.name if one.working_bytes(problem) > most else ""
                repeats = self.repeats or (clock.ON_GPU if self.cuda else slow[one.ours])
                groups.setdefault((alone, repeats), {})[row] = call
        for (_, repeats), calls in sorted(groups.items(), key=lambda group: group[0][0]):
            timed, why = attempt(lambda c=calls, r=repeats: in_turns(c, r, self.cuda), self.cuda)
            found |= zip(calls, timed or [replace(row, skipped=why) for row in calls], strict=True)
        self.remember(found.values())
        return list(found.values())

    @property
    def cuda(self) -> bool:
        """Whether there is a GPU."""
        return self.machine.cuda

    def entered(self, direction: str) -> list[Implementation]:
        """Those whose forward or backward pass is timed."""
        return [one for one in self.implementations if direction == FORWARD or one.backward]

    def planned(self, problem: Problem, direction: str) -> list[Timing]:
        """The rows of a problem before they are timed."""
        return [Timing(one.name, one.label, direction, problem) for one in self.entered(direction)]

    def remember(self, rows: Iterable[Timing]) -> None:
        """How long each took, to foresee longer sequences."""
        known = {one.name: one for one in self.implementations}
        for row in rows:
            if row.times is not None and row.provider in known:
                work = known[row.provider].work(row.problem)
                self.pace[row.provider, row.direction, row.problem.head_dim] = row.times.p50 / work

    def _foreseen(
        self, one: Implementation, problem: Problem, direction: str, tiling: Tiling | None
    ) -> str | None:
        """Why one is not run, where that is known without running it."""
        if one.ours and not self.machine.has_triton:
            return f"no triton on this platform ({sys.platform}); it needs Linux"
        if one.ours and tiling and not self.cuda:
            return too_long(Experiment(problem, one.name, tiling))
        free = clock.available_bytes(self.cuda)
        needed = input_bytes(problem) + one.working_bytes(problem)
        if free is not None and needed > free:
            return f"out of memory: needs about {needed / 1e9:,.1f} GB, may use {free / 1e9:.1f} GB here"
        seconds = self.pace.get((one.name, direction, problem.head_dim), 0.0) * one.work(problem)
        if seconds > self.limit:
            return f"would take about {seconds:,.1f} s per call; the limit here is {self.limit:g} s"
        return None


LONGEST = 3.0  # seconds per call
MOST_TILES = (16, 12, 8, 6, 4, 3, 2, 1)  # across: the first that is quick enough
INTERPRETED = "interpreted: for correctness, not speed"


def interpreter_seconds(experiment: Experiment) -> float:
    """What one call of an experiment's algorithm would take in Triton's interpreter, roughly."""
    problem, tiling = experiment.problem, experiment.tiling
    bounds = key_bounds(problem, tiling)
    visits = np.maximum(bounds.stop - bounds.first, 0).sum()
    if experiment.record.unfused:
        visits = len(bounds.first) * -(-problem.seq_kv // tiling.block_kv)
    fixed, scores = experiment.record.interpreter_ms
    tile = fixed + scores * tiling.block_q * tiling.block_kv / 1e3
    return float(problem.batch * problem.heads * visits * tile / 1e3)


def quick(experiment: Experiment, seconds: float, scores: float = math.inf) -> Experiment:
    """The experiment, or the same with fewer queries and keys, so that the interpreter takes so long at most.

    scores: of all heads, that there may be; at one tile across it may take longer, or have more.
    """
    for most in MOST_TILES:
        sibling = drawable(experiment, most)
        problem = sibling.problem
        few = problem.heads * problem.seq_q * problem.seq_kv <= scores
        if few and interpreter_seconds(sibling) <= seconds:
            break
    return sibling


def too_long(experiment: Experiment) -> str | None:
    """A sentence where the interpreter would take longer than LONGEST, with the most keys that it manages."""
    if experiment.record.interpreter_ms is None:
        return "Triton's interpreter does not run it"
    seconds = interpreter_seconds(experiment)
    if seconds <= LONGEST:
        return None
    keys = 1
    while interpreter_seconds(at_length(experiment, 2 * keys)) <= LONGEST:
        keys *= 2
    largest = f"largest here is N = {keys:,}" if keys > 1 else "no length is short enough here"
    return f"would take about {seconds:,.0f} s per call in the interpreter; {largest}"
