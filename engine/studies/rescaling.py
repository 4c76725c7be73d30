"""One row of attention, tile by tile, with its output: what α does to all that is summed."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from engine.algorithms.flash4 import THRESHOLD
from engine.trace.softmax import OnlineSteps, naive_sums, online_steps

TILE = 4  # keys
SCORES = (0.7, -0.5, 1.4, 0.1, 0.35, 1.82, -0.95, 0.6, 1.3, -0.25, 2.46, 1.05, -0.6, 0.2, 1.65, -1.2)
LATE, MUCH = 13, 7.4  # the number of a score, and what it is where it raises m by more than a threshold
DIMS, SEED = 4, 4  # numbers of O that are shown, and what V is drawn from where a row has none


@dataclass(frozen=True)
class Rescaling:
    """A row of scores and the values that it weighs, read a tile at a time, float64."""

    scores: np.ndarray  # [keys] the row of S, -inf where a key is masked
    values: np.ndarray  # [keys, dims] the rows of V
    block: int  # keys in a tile
    dtype: str = "float16"  # in which a softmax without its maximum would sum
    threshold: float = 0.0  # in log2, by how much a score must pass m to raise it; `steps` are without one

    @cached_property
    def steps(self) -> OnlineSteps:
        """m, l, α and the weights after every tile."""
        return online_steps(self.scores, self.block)

    @cached_property
    def naive(self) -> np.ndarray:
        """[tiles] the sum of e^s without a maximum after every tile, infinite once it has overflowed."""
        return naive_sums(self.scores, self.dtype)[self.steps.stops - 1]


def row_of(scores: np.ndarray, block: int, dtype: str) -> Rescaling:
    """A row that has no values of its own."""
    values = np.random.default_rng(SEED).standard_normal((len(scores), DIMS))
    return Rescaling(np.asarray(scores, np.float64), np.round(values, 2), block, dtype)


def example() -> Rescaling:
    """Sixteen keys in four tiles, the maximum rising in the first three."""
    return row_of(np.array(SCORES), TILE, "float16")


def with_threshold() -> Rescaling:
    """The same with a late score that passes FlashAttention-4's threshold, where the others do not."""
    scores = np.array(SCORES)
    scores[LATE] = MUCH
    return replace(row_of(scores, TILE, "float16"), threshold=THRESHOLD)
