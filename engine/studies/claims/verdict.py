"""What a claim is, and how its verdict follows from numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from engine.experiment import Experiment
from engine.recordings.recording import Recording

RIGHT, PARTLY, OFF, WRONG = "right", "right only in part", "off by a factor", "wrong"
DEPENDS, UNKNOWN = "right for some choices", "not recorded"
VERDICTS = (RIGHT, DEPENDS, PARTLY, OFF, WRONG, UNKNOWN)
FAR = 10.0  # a number that misses by more is wrong, not off
ABOUT = 0.1  # articles round: a number is right within this share, unless a finding says otherwise
SUBJECTS = ("bytes", "gradients", "masks", "numbers", "overlap", "softmax", "tiling", "time", "timeline")
COUNTED, MODELLED, COMPUTED, DATASHEET = "counted", "modelled", "computed", "datasheet"
LOOKED_UP = "looked up in its source, not computed"


@dataclass(frozen=True)
class Finding:
    """One number of a claim beside ours.

    Attributes:
        what: which number.
        unit: "B", "KiB", "MiB", "GiB", "s", "FLOP/s", "FLOP/B", "tokens/s", "tokens", "B/s", "×", "%",
            "error", or "" for plain numbers; "yes" for statements, which are 1 or 0.
        claimed: (low, high) of what is said, from 0 up; None where the number only helps to understand.
        ours: None where nothing was recorded.
        origin: counted, modelled, computed, datasheet, looked up, or recorded on what and when.
        tolerance: relative.
        decides: whether missing it makes the claim wrong, however near.
        varied: what we had to choose, in words; then `ours` is the least, and `most` the most of all choices.
    """

    what: str
    unit: str
    claimed: tuple[float, float] | None
    ours: float | None
    origin: str
    tolerance: float = ABOUT
    decides: bool = False
    varied: str = ""
    most: float | None = None

    @property
    def range(self) -> tuple[float, float]:
        """The least and the most of ours."""
        return self.ours, self.ours if self.most is None else self.most

    @property
    def judged(self) -> bool:
        """Whether there is something said and something to hold it against."""
        return self.claimed is not None and self.ours is not None

    @property
    def factor(self) -> float:
        """How far ours lies outside what is said, at least 1."""
        return min(_factor(value, *self.claimed) for value in self.range)

    @property
    def holds(self) -> bool:
        """Whether ours is what is said, within the tolerance, whatever is chosen."""
        low, high = self._allowed
        return low <= self.range[0] and self.range[1] <= high

    @property
    def depends(self) -> bool:
        """Whether what is said lies among ours, so that a choice decides."""
        low, high = self._allowed
        return not self.holds and self.range[0] <= high and low <= self.range[1]

    @property
    def _allowed(self) -> tuple[float, float]:
        low, high = self.claimed
        return low * (1 - self.tolerance), high * (1 + self.tolerance)


def _factor(value: float, low: float, high: float) -> float:
    if low <= value <= high:
        return 1.0
    less, more = (value, low) if value < low else (high, value)
    return more / less if less > 0 else inf


def said(what: str, unit: str, claimed: float, ours: float | None, origin: str, **more) -> Finding:
    """A finding for one number, not a range."""
    return Finding(what, unit, (claimed, claimed), ours, origin, **more)


def over(
    what: str, unit: str, claimed: tuple[float, float] | None, values: Iterable[float | None], varied: str,
    origin: str, **more,
) -> Finding:  # fmt: skip
    """A finding over what we had to choose: the range of all values; unknown where there is none."""
    known = sorted(value for value in values if value is not None)
    ends = (known[0], known[-1]) if known else (None, None)
    return Finding(what, unit, claimed, ends[0], origin, varied=varied, most=ends[1], **more)


def states(what: str, ours: bool | None, origin: str = COMPUTED) -> Finding:
    """A finding for a statement: it holds or it does not."""
    return Finding(what, "yes", (1.0, 1.0), None if ours is None else float(ours), origin, decides=True)


@dataclass(frozen=True)
class Claim:
    """What an article says, and how it is checked.

    Attributes:
        number: its place in the list.
        source: the article, as far as it is known.
        says: the claim in our words.
        formula: LaTeX, what it is held against.
        subject: one of SUBJECTS, what the claim is about; experiment: the scenario in which it can be seen.
        check: the findings, from a recording or None.
        words: by verdict, why; a sentence for each that can come out.
    """

    number: int
    source: str
    says: str
    formula: str
    subject: str
    experiment: Experiment
    check: Callable[[Recording | None], tuple[Finding, ...]]
    words: Mapping[str, str]


@dataclass(frozen=True)
class Checked:
    """A claim with its findings and its verdict."""

    claim: Claim
    findings: tuple[Finding, ...]
    verdict: str

    @property
    def why(self) -> str:
        """What the verdict rests on, in words."""
        return self.claim.words.get(self.verdict, "The numbers say it.")


def verdict_of(findings: tuple[Finding, ...]) -> str:
    """All hold: right; a choice decides some: for some choices; some hold: in part.

    None: off by a factor, or wrong if all are far off or one decides.
    """
    judged = [finding for finding in findings if finding.judged]
    if not judged:
        return UNKNOWN
    held = sum(finding.holds for finding in judged)
    if held == len(judged):
        return RIGHT
    if any(finding.depends for finding in judged):
        return DEPENDS
    if held:
        return PARTLY
    decided = any(finding.decides for finding in judged)
    return WRONG if decided or all(finding.factor >= FAR for finding in judged) else OFF


def check(claim: Claim, recording: Recording | None) -> Checked:
    """Compute a claim's findings and its verdict."""
    findings = claim.check(recording)
    return Checked(claim, findings, verdict_of(findings))
