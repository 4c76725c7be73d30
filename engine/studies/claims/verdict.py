"""What a claim is, and how its verdict follows from a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from engine.experiment import Experiment
from engine.recordings.recording import Recording

VERDICTS = RIGHT, DEPENDS, OFF, WRONG, UNKNOWN = (
    *("right", "right for some choices", "off by a factor", "wrong", "not recorded"),
)
NOT_RECORDED = "No recording here has this number."
FAR = 10.0  # a number that misses by more is wrong, not off
ABOUT = 0.1  # texts round: a number is right within this share, unless a finding says otherwise
COUNTED, MODELLED, COMPUTED, DATASHEET = "counted", "modelled", "computed", "datasheet"


@dataclass(frozen=True)
class Source:
    """Who says it: a paper or an author's own text with its address, or an article without one."""

    name: str
    address: str = ""


@dataclass(frozen=True)
class Finding:
    """The number that a claim stands or falls with.

    Attributes:
        what: which number.
        unit: "B", "×", "%", "error", or "" for plain numbers.
        claimed: (low, high) of what is said, from 0 up.
        found: the least and the most of ours over all choices; None where nothing was recorded.
        origin: counted, modelled, computed, datasheet, or recorded on what and when.
        varied: the choices, in words.
        tolerance: relative.
        decides: whether missing it makes the claim wrong, however near.
    """

    what: str
    unit: str
    claimed: tuple[float, float]
    found: tuple[float, float] | None
    origin: str
    varied: str = ""
    tolerance: float = ABOUT
    decides: bool = False

    @property
    def verdict(self) -> str:
        """Right where ours lies in what is said, for some choices where a part does, else off or wrong."""
        if self.found is None:
            return UNKNOWN
        low, high = self.claimed[0] * (1 - self.tolerance), self.claimed[1] * (1 + self.tolerance)
        least, most = self.found
        if low <= least and most <= high:
            return RIGHT
        if least <= high and low <= most:
            return DEPENDS
        return WRONG if self.decides or self.factor >= FAR else OFF

    @property
    def factor(self) -> float:
        """How far ours lies outside what is said, at least 1."""
        return min(_factor(value, *self.claimed) for value in self.found)


def _factor(value: float, low: float, high: float) -> float:
    if low <= value <= high:
        return 1.0
    less, more = (value, low) if value < low else (high, value)
    return more / less if less > 0 else inf


def finding(
    what: str, unit: str, claimed: tuple[float, float], values: Iterable[float | None], origin: str, **more
) -> Finding:
    """A finding over all choices; of those that were recorded."""
    known = sorted(value for value in values if value is not None)
    return Finding(what, unit, claimed, (known[0], known[-1]) if known else None, origin, **more)


@dataclass(frozen=True)
class Claim:
    """What a text says, and how it is checked.

    Attributes:
        says: the claim in our words.
        page, experiment: where its scenario is seen.
        check: the finding, from recordings, the newest first.
        judged: the verdict that the number gives with the recordings that there are; why: in words.
    """

    source: Source
    says: str
    page: str
    experiment: Experiment
    check: Callable[[tuple[Recording, ...]], Finding]
    judged: str
    why: str


@dataclass(frozen=True)
class Checked:
    """A claim with its number in the list and its finding."""

    number: int
    claim: Claim
    finding: Finding

    @property
    def verdict(self) -> str:
        """As the finding has it."""
        return self.finding.verdict

    @property
    def why(self) -> str:
        """What the verdict rests on, in words."""
        if self.verdict == self.claim.judged:
            return self.claim.why
        return NOT_RECORDED if self.verdict == UNKNOWN else "The number says it."
