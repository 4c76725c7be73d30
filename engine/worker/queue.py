"""A visitor's claim on a run of a job: what there is to know of it, and how it is given up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

STATES = ("queued", "starting", "running", "done", "failed", "cancelled")
QUEUED, STARTING, RUNNING, DONE, FAILED, CANCELLED = STATES


@dataclass(frozen=True)
class Visitor:
    """Who asks for a job.

    Attributes:
        name: equal for all windows of one visitor, whose jobs count together.
        watches: whether the window that asked is still there.
    """

    name: Hashable
    watches: Callable[[], bool]


class Run:
    """One run of a job, shared by all who asked for it; changed only under the worker's lock."""

    def __init__(self, key: str, kind: str, payload: dict[str, Any]):
        self.key, self.kind, self.payload = key, kind, payload
        self.state = QUEUED
        self.claims: list[Job] = []
        self.started_at = 0.0
        self.fraction, self.message, self.rows = 0.0, "", []
        self.result: Any = None
        self.error: str | None = None
        self.finished_at: float | None = None

    @property
    def under_way(self) -> bool:
        return self.state in (QUEUED, STARTING, RUNNING)


class Keeper(Protocol):
    """What a claim asks of the worker that it was made with."""

    def _position(self, run: Run) -> int: ...

    def _waits(self, run: Run) -> float: ...

    def _release(self, job: Job) -> None: ...

    def _wait(self, job: Job, seconds: float) -> bool: ...


class Job:
    """One visitor's claim on a run. Reading is safe from any thread and never waits for the process."""

    def __init__(self, worker: Keeper, run: Run, visitor: Visitor | None = None):
        self._worker, self._run, self._given_up = worker, run, False
        self._visitor, self._watched_at = visitor, time.monotonic()

    @property
    def _name(self) -> Hashable:
        """Whose it is; a job that nobody is named for is a visitor by itself."""
        return id(self) if self._visitor is None else self._visitor.name

    @property
    def state(self) -> str:
        """queued, starting, running, done, failed or cancelled."""
        return CANCELLED if self._given_up else self._run.state

    @property
    def under_way(self) -> bool:
        """Whether there is still something to wait for."""
        return not self._given_up and self._run.under_way

    @property
    def position(self) -> int:
        """How many jobs are before this one, the running one included; 0 when it runs or has ended."""
        return self._worker._position(self._run)

    @property
    def waits(self) -> float:
        """Seconds until it is likely to run: of the jobs before it, by what such jobs took; at most."""
        return self._worker._waits(self._run)

    @property
    def progress(self) -> float:
        """0 to 1."""
        return self._run.fraction

    @property
    def message(self) -> str:
        """What the job does now."""
        return self._run.message

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """Partial results so far, in the order in which they came."""
        return tuple(self._run.rows)

    @property
    def result(self) -> Any:
        """What the job returned; None before it is done."""
        return self._run.result

    @property
    def error(self) -> str | None:
        """Why it failed, in one sentence."""
        return self._run.error

    @property
    def finished_at(self) -> float | None:
        """When it ended, seconds since the epoch."""
        return self._run.finished_at

    def cancel(self) -> None:
        """Give up this claim; the run stops, at once, when nobody else wants it."""
        self._worker._release(self)

    def wait(self, seconds: float) -> bool:
        """Wait for the end, at most so long; whether it has come."""
        return self._worker._wait(self, seconds)


MOST_OF_A_VISITOR = 3  # one that runs and two that wait
USUAL_SECONDS = 30.0  # of a job of a kind that has not run yet


class QueueFullError(Exception):
    """No room for another job; the sentence says how many wait."""


def in_turn(waiting: Sequence[Run], current: Run | None) -> list[Run]:
    """The waiting runs in the order in which they will run: every visitor's first, then every second."""
    before: Counter[Hashable] = Counter()
    if current is not None:
        before.update({claim._name for claim in current.claims})
    turns = []
    for run in waiting:
        names = {claim._name for claim in run.claims}
        turns.append(min((before[name] for name in names), default=0))
        before.update(names)
    return [run for _, run in sorted(zip(turns, waiting, strict=True), key=lambda each: each[0])]


def position(run: Run, waiting: Sequence[Run], current: Run | None) -> int:
    """How many runs are before this one, the running one included; 0 when it does not wait."""
    if run not in waiting:
        return 0
    return in_turn(waiting, current).index(run) + (current is not None)


def seconds_ahead(
    run: Run, waiting: Sequence[Run], current: Run | None, took: Mapping[str, float], limit: float
) -> float:
    """Seconds until a run is likely to run.

    Args:
        took: seconds of the latest run of each kind.
        limit: seconds that no run exceeds.
    """
    if run not in waiting:
        return 0.0
    usual = min(USUAL_SECONDS, limit)
    turns = in_turn(waiting, current)
    ahead = sum(took.get(each.kind, usual) for each in turns[: turns.index(run)])
    if current is None:
        return ahead
    spent = time.monotonic() - current.started_at if current.started_at else 0.0
    left = max(took.get(current.kind, usual) - spent, 0.0)
    if current.fraction > 0.1:
        left = spent / current.fraction - spent
    return ahead + min(left, max(limit - spent, 0.0))


def allow(job: Job, waiting: Sequence[Run], current: Run | None) -> None:
    """Refuse what is more than a visitor's share; raises QueueFullError."""
    others = [run for run in (*waiting, current) if run not in (None, job._run)]
    own = sum(any(claim._name == job._name for claim in run.claims) for run in others)
    if own >= MOST_OF_A_VISITOR:
        raise QueueFullError(
            f"{own} of your jobs run or wait here, and this server takes no more from one visitor; "
            "cancel one or wait for it"
        )
