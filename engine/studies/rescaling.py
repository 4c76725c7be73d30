"""One row of attention, tile by tile, with its output: what α does to all that is summed."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.trace.softmax import OnlineSteps, online_steps

TILE = 4  # keys
SCORES = (0.7, -0.5, 1.4, 0.1, 0.35, 1.82, -0.95, 0.6, 1.3, -0.25, 2.46, 1.05, -0.6, 0.2, 1.65, -1.2)
DIMS, SEED = 4, 4  # numbers of O that are shown, and what V is drawn from


@dataclass(frozen=True)
class Rescaling:
    """A row of scores and the values that it weighs, read a tile at a time, float64.

    Args:
        scores: [keys] the row of S.
        values: [keys, dims] the rows of V.
        block: keys in a tile.

    Example:
        >>> example().steps.m.tolist()
        [1.4, 1.82, 2.46, 2.46]
    """

    scores: np.ndarray
    values: np.ndarray
    block: int

    @cached_property
    def steps(self) -> OnlineSteps:
        """m, l, α and the weights after every tile."""
        return online_steps(self.scores, self.block)

    @cached_property
    def out(self) -> np.ndarray:
        """[tiles, dims] O after every tile, not yet divided by l."""
        return self.steps.weights @ self.values

    @cached_property
    def result(self) -> np.ndarray:
        """[dims] O divided by l: what attention gives for this row."""
        return self.out[-1] / self.steps.l[-1]

    @cached_property
    def without_alpha(self) -> np.ndarray:
        """[dims] what it would be if nothing summed were ever multiplied by α."""
        weights = np.exp(self.scores - np.repeat(self.steps.m, self.block)[: len(self.scores)])
        return weights @ self.values / weights.sum()


def example() -> Rescaling:
    """Sixteen keys in four tiles, the maximum rising in the first three."""
    values = np.round(np.random.default_rng(SEED).standard_normal((len(SCORES), DIMS)), 2)
    return Rescaling(np.array(SCORES), values, TILE)
