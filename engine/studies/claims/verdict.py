"""What a claim is, and how its verdict follows from numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from engine.experiment import Experiment
from engine.recordings.recording import Recording

RIGHT, PARTLY, OFF, WRONG = "right", "right only in part", "off by a factor", "wrong"
UNKNOWN = "not recorded"
VERDICTS = (RIGHT, PARTLY, OFF, WRONG, UNKNOWN)
FAR = 10.0  # a number that misses by more is wrong, not off
ABOUT = 0.1  # articles round: a number is right within this share, unless a finding says otherwise
SUBJECTS = ("bytes", "gradients", "masks", "numbers", "overlap", "softmax", "tiling", "time")
COUNTED, MODELLED, COMPUTED, DATASHEET = "counted", "modelled", "computed", "datasheet"


@dataclass(frozen=True)
class Finding:
    """One number of a claim beside ours.

    Attributes:
        what: which number.
        unit: "B", "KiB", "MiB", "GiB", "s", "FLOP/s", "FLOP/B", "tokens/s", "tokens", "B/s", "×", "%",
            "error", or "" for plain numbers; "yes" for statements, which are 1 or 0.
        claimed: (low, high) of what is said, from 0 up; None where the number only helps to understand.
        ours: None where nothing was recorded.
        origin: counted, modelled, computed, datasheet, or recorded on what and when.
        tolerance: relative.
        decides: whether missing it makes the claim wrong, however near.
    """

    what: str
    unit: str
    claimed: tuple[float, float] | None
    ours: float | None
    origin: str
    tolerance: float = ABOUT
    decides: bool = False

    @property
    def judged(self) -> bool:
        """Whether there is something said and something to hold it against."""
        return self.claimed is not None and self.ours is not None

    @property
    def factor(self) -> float:
        """How far ours lies outside what is said, at least 1."""
        low, high = self.claimed
        if low <= self.ours <= high:
            return 1.0
        less, more = (self.ours, low) if self.ours < low else (high, self.ours)
        return more / less if less > 0 else inf

    @property
    def holds(self) -> bool:
        """Whether ours is what is said, within the tolerance."""
        low, high = self.claimed
        return low * (1 - self.tolerance) <= self.ours <= high * (1 + self.tolerance)


def said(what: str, unit: str, claimed: float, ours: float | None, origin: str, **more) -> Finding:
    """A finding for one number, not a range."""
    return Finding(what, unit, (claimed, claimed), ours, origin, **more)


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
    """All hold: right; some: in part; none: off by a factor, or wrong if all are far off or one decides."""
    judged = [finding for finding in findings if finding.judged]
    if not judged:
        return UNKNOWN
    held = sum(finding.holds for finding in judged)
    if held == len(judged):
        return RIGHT
    if held:
        return PARTLY
    decided = any(finding.decides for finding in judged)
    return WRONG if decided or all(finding.factor >= FAR for finding in judged) else OFF


def check(claim: Claim, recording: Recording | None) -> Checked:
    """Compute a claim's findings and its verdict."""
    findings = claim.check(recording)
    return Checked(claim, findings, verdict_of(findings))
