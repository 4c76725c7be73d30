"""What a claim is, and how its verdict follows from a number."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from engine.experiment import Experiment
from engine.recordings.file import is_of
from engine.recordings.recording import Recording

VERDICTS = RIGHT, DEPENDS, WRONG, UNKNOWN = "right", "right for some choices", "wrong", "not recorded"
ABOUT = 0.1  # texts round: a number is right within this share, unless a claim says otherwise
COUNTED, MODELLED, COMPUTED, DATASHEET = "counted", "modelled", "computed", "datasheet"


@dataclass(frozen=True)
class Claim:
    """What a text says, and the number that it stands or falls with."""

    # who says it: a paper or an author's own text with its address, or an article without one
    source: tuple[str, str]
    says: str  # the claim in our words
    # page, experiment: where its scenario is seen
    page: str
    experiment: Experiment
    # what, unit: which number, in "B", "×", "%", "error", or "" for plain numbers
    what: str
    unit: str
    claimed: tuple[float, float]  # (low, high) of what is said, from 0 up
    # ours, one or over all choices, from the recordings of `gpus`; None is not recorded
    values: Callable[..., Iterable[float | None]]
    # judged, why: the verdict that it gives with the recordings that there are, and why, in words
    judged: str
    why: str
    origin: str = ""  # counted, modelled, computed or datasheet; of what is recorded, when and where follows
    gpus: tuple[str, ...] = ()
    varied: str = ""  # the choices, in words
    tolerance: float = ABOUT  # relative


@dataclass(frozen=True)
class Checked:
    """A claim with its number in the list, the least and the most of ours, and where they are from."""

    number: int
    claim: Claim
    found: tuple[float, float] | None
    origin: str

    @property
    def verdict(self) -> str:
        """Right where ours lies in what is said, for some choices where a part does, else wrong."""
        return verdict(self.claim.claimed, self.found, self.claim.tolerance)

    @property
    def why(self) -> str:
        """What the verdict rests on, in words."""
        if self.verdict == UNKNOWN:
            return "No recording here has this number."
        return self.claim.why if self.verdict == self.claim.judged else "The number says it."


def check(number: int, claim: Claim, shelf: Sequence[Recording]) -> Checked:
    """Compute what a claim says from the recordings of its GPUs; None where one of these is not there."""
    own = [next((each for each in shelf if is_of(each, key)), None) for key in claim.gpus]
    values = [] if None in own else [each for each in claim.values(*own) if each is not None]
    origin = claim.origin or ", and ".join(each.origin for each in own if each) or UNKNOWN
    return Checked(number, claim, (min(values), max(values)) if values else None, origin)


def verdict(claimed: tuple[float, float], found: tuple[float, float] | None, tolerance: float) -> str:
    """What follows from what is said, and from the least and the most of ours."""
    if found is None:
        return UNKNOWN
    low, high = claimed[0] * (1 - tolerance), claimed[1] * (1 + tolerance)
    if low <= found[0] and found[1] <= high:
        return RIGHT
    return DEPENDS if found[0] <= high and low <= found[1] else WRONG
