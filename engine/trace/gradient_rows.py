"""The backward pass of single rows, for a picture that follows them: what each tile gives to a row's dQ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.experiment import Experiment
from engine.problem.dtype import round_to
from engine.trace.rows import masked_scores
from engine.trace.softmax import falling, log_sum_exp


@dataclass(frozen=True)
class GradientRows:
    """Some rows in the backward pass, float32.

    Attributes:
        rows: [rows] query rows.
        lse: [rows] log-sum-exp that the forward pass kept, natural; -inf where a row sees no key.
        delta: [rows] rowsum(dO o O).
        weight: [rows, key blocks] sum of P in each tile; a row's add up to 1.
        score_gradient: [rows, key blocks] sum of dS = P o (dP - delta) in each tile; a row's add up to 0.
    """

    rows: np.ndarray
    lse: np.ndarray
    delta: np.ndarray
    weight: np.ndarray
    score_gradient: np.ndarray


def gradient_rows(experiment: Experiment, q, k, v, d_out, rows) -> GradientRows:
    """The backward pass of some rows of one head, all at once; costs O(rows * seq_kv * d).

    q and d_out are [seq_q, d], k and v [seq_kv, d], rounded to the problem's dtype.
    """
    rows, problem, width = np.asarray(rows, np.int64), experiment.problem, experiment.tiling.block_kv
    scores = masked_scores(experiment, q, k, rows)
    m = scores.max(1, keepdims=True)
    exponentials = falling(scores, m)
    total = exponentials.sum(1, keepdims=True)
    weights = exponentials / np.where(total == 0, np.float32(1), total)
    out = round_to(weights[:, : problem.seq_kv] @ v, problem.dtype)
    delta = (d_out[rows] * out).sum(1)
    d_weights = np.zeros_like(weights)
    d_weights[:, : problem.seq_kv] = d_out[rows] @ v.T
    d_scores = weights * (d_weights - delta[:, None])
    lse = log_sum_exp(m, total)[:, 0]
    return GradientRows(rows, lse, delta, *(_by_tile(array, width) for array in (weights, d_scores)))


def _by_tile(values: np.ndarray, width: int) -> np.ndarray:
    """[rows, key blocks] sums of [rows, keys of whole blocks]."""
    return values.reshape(len(values), -1, width).sum(2)
