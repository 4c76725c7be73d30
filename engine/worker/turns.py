"""Whose turn it is: the order in which waiting runs will run, how long one waits, and what is too many."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from engine.worker.claim import Job, Run

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
