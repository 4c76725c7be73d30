"""An online softmax that forgets to rescale what it has gathered, beside the right one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.problem.inputs import make_inputs
from engine.problem.problem import Problem
from engine.trace.softmax import PRESETS, falling


@dataclass(frozen=True)
class BrokenUpdate:
    """One row of attention, block by block, float64.

    Attributes:
        m: [blocks] the running maximum.
        right, broken: [blocks] largest error of O so far, relative to the largest number of the exact O
            over the same keys.
    """

    m: np.ndarray
    right: np.ndarray
    broken: np.ndarray


def broken_update(scores: np.ndarray, values: np.ndarray, block: int) -> BrokenUpdate:
    """Both updates of O on one row: scores [keys], values [keys, d], `block` keys at a time.

    Right: O = exp(m - m') O + exp(m_block - m') P V. Broken: O = O + exp(m_block - m') P V.
    """
    m, total = -np.inf, 0.0
    right, broken = np.zeros(values.shape[1]), np.zeros(values.shape[1])
    course = []
    for start in range(0, len(scores), block):
        part = scores[start : start + block]
        peak = part.max()
        weights = np.exp(part - peak)
        new = max(m, peak)
        alpha, share = falling(np.float64(m), np.float64(new)), np.exp(peak - new)
        gathered = share * (weights @ values[start : start + block])
        total = alpha * total + share * weights.sum()
        right, broken, m = alpha * right + gathered, broken + gathered, new
        exact = _exact(scores[: start + block], values[: start + block])
        errors = (np.abs(each / total - exact).max() / np.abs(exact).max() for each in (right, broken))
        course.append((m, *errors))
    return BrokenUpdate(*np.array(course).T)


def _exact(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


def rising(block: int = 2) -> BrokenUpdate:
    """Both updates on the softmax page's row of rising maxima."""
    scores = np.array(PRESETS["rising"].scores)
    _, _, v = make_inputs(Problem(seq_q=1, seq_kv=len(scores), head_dim=16, dtype="float32"))
    return broken_update(scores, v[0].astype(np.float64), block)
