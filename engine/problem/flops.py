"""FLOPs as the field counts them, whatever a kernel computes twice or skips."""

from engine.problem.bounds import visible_pairs
from engine.problem.problem import Problem

BACKWARD_FLOPS = 2.5  # over the forward pass's, by the field's convention


def field_flops(problem: Problem) -> int:
    """FLOPs as the field counts them: 2 B H N N (d + d of V), halved when causal; else by visible pairs."""
    if problem.mask.kinds <= {"causal"} and problem.seq_q == problem.seq_kv:
        whole = 2 * problem.all_heads * problem.seq_q**2 * (problem.head_dim + problem.v_dim)
        return whole // 2 if problem.mask.hides else whole
    return pair_flops(problem)


def pair_flops(problem: Problem) -> int:
    """FLOPs of the pairs that the mask leaves, 2 (d + d of V) each."""
    return 2 * problem.all_heads * visible_pairs(problem) * (problem.head_dim + problem.v_dim)
