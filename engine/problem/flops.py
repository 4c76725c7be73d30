"""FLOPs as the field counts them, whatever a kernel computes twice or skips."""

from __future__ import annotations

import numpy as np

from engine.problem.bounds import visible_keys
from engine.problem.problem import Problem

BACKWARD_FLOPS = 2.5  # over the forward pass's, by the field's convention


def field_flops(problem: Problem) -> int:
    """FLOPs as the field counts them: 4 B H N N d, halved when causal; other masks by their visible pairs."""
    heads = problem.batch * problem.heads
    mask = problem.mask
    if mask.window is None and not mask.packed and problem.seq_q == problem.seq_kv:
        return 4 * heads * problem.seq_q**2 * problem.head_dim // (2 if mask.causal else 1)
    return pair_flops(problem)


def pair_flops(problem: Problem, prefix: int = 0, v_dim: int | None = None) -> int:
    """FLOPs of the pairs that the mask leaves, 2 (d + d of V) each; every query sees a prefix of keys."""
    low, high = visible_keys(problem, np.arange(problem.seq_q))
    pairs = int((np.maximum(high, prefix) - low).sum())
    return 2 * problem.batch * problem.heads * pairs * (problem.head_dim + (v_dim or problem.head_dim))
