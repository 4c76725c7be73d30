"""What becomes of a score before its softmax: a cap, slopes of ALiBi, and a sink beside the keys.

Where numbers are computed every head has the same sink and the same slope, as no time depends on them.
"""

import numpy as np

from engine.problem.problem import Problem

SINK, SLOPE = 1.0, 2.0**-4  # a logit; what a score falls by per key of distance


def with_terms(problem: Problem, scores: np.ndarray, rows: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """[rows, keys] scores of these query rows and keys as the softmax takes them."""
    if problem.softcap:
        scores = problem.softcap * np.tanh(scores / problem.softcap)
    if problem.slopes:
        distance = np.abs(problem.positions(rows)[:, None] - keys)
        scores = scores - (SLOPE * distance).astype(scores.dtype)
    return scores.astype(scores.dtype, copy=False)


def before_keys(problem: Problem) -> tuple[float, float]:
    """(m, l) of a row before it has seen a key: those of its sink, or of nothing."""
    return (SINK, 1.0) if problem.sinks else (-np.inf, 0.0)
