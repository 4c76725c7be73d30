"""What a card's power limit leaves of its clock while its tensor cores work; see `engine.model.rates`."""

from __future__ import annotations

from engine.model.rates import POWER_FROM, POWER_SLOPE, RUNNING_CLOCK, SUSTAINED_CLOCK, SUSTAINED_FROM


def clock_left(busy: float) -> float:
    """Share of its clock that an H200 holds while its tensor cores work a share `busy` of the time."""
    return 1 - POWER_SLOPE * max(0.0, busy - POWER_FROM) / RUNNING_CLOCK


def sustained(seconds: float) -> float:
    """Seconds of work that would take so many at the clock it begins with: the limit is on an average."""
    return seconds + max(0.0, seconds - SUSTAINED_FROM) * (1 / SUSTAINED_CLOCK - 1)


def unsustained(seconds: float) -> float:
    """The other way round."""
    return min(seconds, SUSTAINED_FROM) + max(0.0, seconds - SUSTAINED_FROM) * SUSTAINED_CLOCK
