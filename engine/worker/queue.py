"""A visitor's claim on a run of a job: what there is to know of it, and how it is given up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from operator import attrgetter
from threading import Condition
from typing import Any

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


class Job:
    """One visitor's claim on a run. Reading is safe from any thread and never waits for the process."""

    def __init__(self, queue: Queue, run: Run, visitor: Visitor | None = None):
        self._queue, self._run, self._given_up = queue, run, False
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
        with self._queue.changed:
            return self._queue.position(self._run)

    @property
    def waits(self) -> float:
        """Seconds until it is likely to run: of the jobs before it, by what such jobs took; at most."""
        with self._queue.changed:
            return self._queue.seconds_ahead(self._run)

    progress = property(attrgetter("_run.fraction"), doc="0 to 1.")
    message = property(attrgetter("_run.message"), doc="What the job does now.")
    rows = property(lambda self: tuple(self._run.rows), doc="Partial results so far, as they came.")
    result = property(attrgetter("_run.result"), doc="What the job returned; None before it is done.")
    error = property(attrgetter("_run.error"), doc="Why it failed, in one sentence.")
    finished_at = property(attrgetter("_run.finished_at"), doc="When it ended, seconds since the epoch.")

    def cancel(self) -> None:
        """Give up this claim; the run stops, at once, when nobody else wants it."""
        self._queue.release(self)

    def wait(self, seconds: float) -> bool:
        """Wait for the end, at most so long; whether it has come."""
        with self._queue.changed:
            return self._queue.changed.wait_for(lambda: not self.under_way, seconds)


MOST_OF_A_VISITOR = 3  # one that runs and two that wait
USUAL_SECONDS = 30.0  # of a job of a kind that has not run yet


class QueueFullError(Exception):
    """No room for another job; the sentence says how many wait."""


class Queue:
    """The runs that wait for one process, the run that it has, and whose turn is next.

    Attributes:
        changed: held by whoever reads or changes the others, and told of it.
        waiting: in the order in which they came.
        current: what the process has.
        took: seconds of the latest run of each kind.
        limit: seconds that no run exceeds.
    """

    def __init__(self, limit: float):
        self.changed = Condition()
        self.waiting: list[Run] = []
        self.current: Run | None = None
        self.took: dict[str, float] = {}
        self.limit = limit

    def in_turn(self) -> list[Run]:
        """The waiting runs in the order in which they will run: every visitor's first, then every second."""
        before: Counter[Hashable] = Counter()
        if self.current is not None:
            before.update({claim._name for claim in self.current.claims})
        turns = []
        for run in self.waiting:
            names = {claim._name for claim in run.claims}
            turns.append(min((before[name] for name in names), default=0))
            before.update(names)
        return [run for _, run in sorted(zip(turns, self.waiting, strict=True), key=lambda each: each[0])]

    def position(self, run: Run) -> int:
        """How many runs are before this one, the running one included; 0 when it does not wait."""
        if run not in self.waiting:
            return 0
        return self.in_turn().index(run) + (self.current is not None)

    def seconds_ahead(self, run: Run) -> float:
        """Seconds until a run is likely to run."""
        if run not in self.waiting:
            return 0.0
        usual, turns, current = min(USUAL_SECONDS, self.limit), self.in_turn(), self.current
        ahead = sum(self.took.get(each.kind, usual) for each in turns[: turns.index(run)])
        if current is None:
            return ahead
        spent = time.monotonic() - current.started_at if current.started_at else 0.0
        left = max(self.took.get(current.kind, usual) - spent, 0.0)
        if current.fraction > 0.1:
            left = spent / current.fraction - spent
        return ahead + min(left, max(self.limit - spent, 0.0))

    def release(self, job: Job) -> None:
        """Take back a claim that is given up."""
        raise NotImplementedError

    def allow(self, job: Job) -> None:
        """Refuse what is more than a visitor's share; raises QueueFullError."""
        others = [run for run in (*self.waiting, self.current) if run not in (None, job._run)]
        own = sum(any(claim._name == job._name for claim in run.claims) for run in others)
        if own >= MOST_OF_A_VISITOR:
            raise QueueFullError(
                f"{own} of your jobs run or wait here, and one visitor may have no more than that; "
                "cancel one or wait for it"
            )
