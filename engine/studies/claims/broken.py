"""An online softmax that forgets to rescale what it has gathered, beside the right one."""

from dataclasses import dataclass

import numpy as np

from engine.problem.inputs import make_inputs
from engine.problem.problem import Problem
from engine.trace.softmax import PRESETS, online_steps


@dataclass(frozen=True)
class BrokenUpdate:
    """The largest error of one row's O after every block, float64, by both updates.

    right, broken: [blocks] relative to the largest number of the exact O over the same keys.
    """

    right: np.ndarray
    broken: np.ndarray


def broken_update(scores: np.ndarray, values: np.ndarray, block: int) -> BrokenUpdate:
    """Both updates of O on one row: scores [keys], values [keys, d], `block` keys at a time.

    Right: O = exp(m - m') O + exp(S - m') V. Broken: O = O + exp(S - m') V.
    """
    steps, start, errors = online_steps(scores, block), 0, []
    sums = np.zeros((2, values.shape[1]))  # right, and broken
    for stop, alpha, weights, total in zip(steps.stops, steps.alpha, steps.weights, steps.l, strict=True):
        sums = np.array([[alpha], [1.0]]) * sums + weights[start:stop] @ values[start:stop]
        exact, start = weights @ values / total, stop
        errors.append(np.abs(sums / total - exact).max(1) / np.abs(exact).max())
    return BrokenUpdate(*np.array(errors).T)


def rising(block: int = 2) -> BrokenUpdate:
    """Both updates on the softmax page's row of rising maxima."""
    scores = np.array(PRESETS["rising"].scores)
    _, _, v = make_inputs(Problem(seq_q=1, seq_kv=len(scores), head_dim=16, dtype="float32"))
    return broken_update(scores, v[0].astype(np.float64), block)
