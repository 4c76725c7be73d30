"""The online softmax of one row, its exponentials, and rows of scores with something to see.

Online: Milakov and Gimelshein, arXiv 1805.02867; by blocks: FlashAttention, arXiv 2205.14135, section 3.1.
"""

from dataclasses import dataclass

import numpy as np

from engine.algorithms import Pipeline
from engine.problem.dtype import round_to

MOST_SCORES = 256
LOG2_E = np.float32(np.log2(np.e))
POLYNOMIAL = 0.07706705, 0.22764498, 0.69511679, 1.0  # of 2^x, x from 0 to 1: off by 8.6e-5 of it at most


def falling(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """exp(lower - upper) for lower <= upper; 0 where lower is -inf, also where both are."""
    return np.exp(lower - np.where(np.isneginf(upper), upper.dtype.type(0), upper))


def raised(m: np.ndarray, largest: np.ndarray, threshold: float = 0.0) -> np.ndarray:
    """The running maximum where `largest` is a block's: m, unless it rises by more than 2^threshold."""
    with np.errstate(invalid="ignore"):  # -inf beside -inf
        rises = (largest - m) * LOG2_E > threshold
    return np.where(rises, largest, m)


def exp2_by_polynomial(x: np.ndarray) -> np.ndarray:
    """2^x in float32 by sums and products alone, off by 8.8e-5 of it at most; 0 from -127 on."""
    bounded = np.maximum(x, np.float32(-127))
    whole = np.floor(bounded)
    part = np.polyval(np.array(POLYNOMIAL, np.float32), bounded - whole)
    return np.where(x > -127, np.ldexp(part, whole.astype(np.int32)), np.float32(0))


def exponentials(scores: np.ndarray, m: np.ndarray, pipeline: Pipeline) -> np.ndarray:
    """exp(scores - m); of some columns of a key block by polynomials where the pipeline has them so."""
    weights = falling(scores, m)
    if pipeline.polynomials:
        at = np.arange(scores.shape[-1])
        chosen = np.isin(at // 32, (1, 2)) & (at % 32 % 10 >= 6)  # pairs of the two middle quarters
        finite = np.where(np.isneginf(m), np.float32(0), m)
        weights[..., chosen] = exp2_by_polynomial((scores[..., chosen] - finite) * LOG2_E)
    return weights


def log_sum_exp(m: np.ndarray, total: np.ndarray) -> np.ndarray:
    """m + log(l) from the maximum and the sum of exp(score - m); -inf where no key has been seen."""
    return m + np.log(np.where(total == 0, total.dtype.type(1), total))


@dataclass(frozen=True)
class OnlineSteps:
    """A row's online softmax after every block, float64."""

    # m, l, alpha: [steps] running maximum, running sum, and what the sum so far was multiplied by
    m: np.ndarray
    l: np.ndarray  # noqa: E741 - the field's name
    alpha: np.ndarray
    weights: np.ndarray  # [steps, scores] exp(score - m) of the scores seen so far, 0 for those to come
    final: np.ndarray  # [scores] the weights as they will be, softmax(scores); 0 where every score is -inf
    stops: np.ndarray  # [steps] how many scores have been seen


def online_steps(scores: np.ndarray, block: int = 1) -> OnlineSteps:
    """The online softmax of one row of scores (-inf: masked), `block` scores at a time."""
    scores = np.asarray(scores, np.float64)
    stops = np.minimum(np.arange(block, len(scores) + block, block), len(scores))
    m = np.maximum.accumulate(scores)[stops - 1]
    alpha = falling(np.concatenate(([-np.inf], m[:-1])), m)
    seen = np.arange(len(scores)) < stops[:, None]
    weights = np.where(seen, falling(np.where(seen, scores, -np.inf), m[:, None]), 0)
    sums = weights.sum(1)
    final = weights[-1] / (sums[-1] if sums[-1] else 1)
    return OnlineSteps(m, sums, alpha, weights, final, stops)


def naive_sums(scores: np.ndarray, dtype: str) -> np.ndarray:
    """[scores] the sum of exp(score) without a maximum, as it grows; inf once it has overflowed the dtype."""
    with np.errstate(over="ignore"):
        return np.cumsum(round_to(np.exp(round_to(scores, dtype)), dtype), dtype=np.float32)


@dataclass(frozen=True)
class Preset:
    """A row of scores with something to see."""

    name: str
    what: str
    scores: tuple[float, ...]


_NONE = float("-inf")
PRESETS = {
    "rising": Preset(
        "Rising maxima",
        "With two or more scores per step, every block of this row contains a new largest score, so "
        "everything accumulated so far is multiplied by α < 1.",
        (0.1, -0.4, 0.6, 0.3, 1.2, 0.8, 1.5, 0.9, 2.1, 1.4, 1.8, 2.6, 2.9, 2.2, 3.4, 3.1),
    ),
    "spike": Preset(
        "One spike",
        "One score outweighs all the others, so α falls almost to 0 once and stays 1 after it.",
        (0.4, -0.2, 0.9, 0.1, -0.6, 0.3, 0.7, 0.0, -0.3, 0.5, 9.0, 0.2, 0.8, -0.1, 0.4, 0.6),
    ),
    "masked": Preset(
        "A masked block",
        "The first four keys are masked, so m stays −∞ and l stays 0 over them, and nothing turns into NaN.",
        (_NONE, _NONE, _NONE, _NONE, 0.7, 1.3, -0.5, 0.2, 1.9, 0.4, 1.1, -0.8, _NONE, _NONE, 0.6, 1.0),
    ),
    "overflow": Preset(
        "Overflow in float16",
        "exp(12) is more than 65,504, the largest float16, so it is inf unless the maximum is "
        "subtracted first.",
        (3.0, 5.5, 8.0, 10.0, 10.5, 11.0, 11.5, 12.0, 11.8, 9.0, 7.5, 11.2, 12.5, 6.0, 4.0, 2.0),
    ),
    "settled": Preset(
        "The largest first",
        "The first score is the largest, so α is 1 from then on and nothing is ever rescaled.",
        (3.6, 1.2, 0.4, 2.0, -0.5, 1.7, 0.9, 0.1, 2.4, 1.1, -0.2, 0.8, 1.5, 0.3, 2.2, 0.6),
    ),
}
