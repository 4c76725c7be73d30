"""PyTorch's own attention, unfused and fused. Imports torch when called."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from engine.measuring.exact import hidden_keys
from engine.problem.problem import Problem


def unfused(q, k, v, problem: Problem) -> Callable[[], Any]:
    """Matmul, scale, mask, softmax, matmul; the query heads of one key head share its matrix products."""
    import torch

    hidden = hidden_keys(problem, torch.arange(problem.seq_q, device=q.device))
    blind = hidden is not None and bool(hidden.all(1).any())
    group = problem.group
    rows = (problem.batch, problem.kv_heads, group * problem.seq_q)
    split = (problem.batch, problem.kv_heads, group, problem.seq_q, problem.seq_kv)

    def call():
        scores = (q.reshape(*rows, -1) @ k.mT) * problem.scale
        if hidden is not None:
            scores.view(split).masked_fill_(hidden, -torch.inf)
        weights = torch.softmax(scores, -1)
        if blind:
            weights.nan_to_num_(0.0)
        return (weights @ v).view(q.shape)

    return call


def fused(backend: str | None) -> Callable[..., Callable[[], Any]]:
    """scaled_dot_product_attention by one of its backends, or by the one that PyTorch chooses."""

    def prepare(q, k, v, problem: Problem):
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        whole = problem.mask.kinds <= {"causal"}
        square = whole and problem.seq_q == problem.seq_kv
        arguments: dict[str, Any] = {"enable_gqa": problem.heads != problem.kv_heads}
        if problem.mask.causal and square:
            arguments["is_causal"] = True  # PyTorch aligns the first query with the first key
        elif not (whole and problem.seq_q == 1):  # one query, the last, sees every key
            hidden = hidden_keys(problem, torch.arange(problem.seq_q, device=q.device))
            arguments["attn_mask"] = None if hidden is None else ~hidden

        def call():
            with nullcontext() if backend is None else sdpa_kernel(getattr(SDPBackend, backend)):
                return scaled_dot_product_attention(q, k, v, **arguments)

        return call

    return prepare
