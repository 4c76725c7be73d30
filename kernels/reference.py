"""Attention in float64 PyTorch, as the formula says it: what every kernel is held against."""

import torch


def visible_mask(seq_q: int, seq_kv: int, causal: bool, window: int | None, device=None) -> torch.Tensor:
    """[seq_q, seq_kv] bool: the keys each query sees (see `kernels.attention`)."""
    position = torch.arange(seq_q, device=device)[:, None] + (seq_kv - seq_q)
    key = torch.arange(seq_kv, device=device)[None, :]
    seen = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=device)
    if causal or window is not None:
        seen &= key <= position
    if window is not None:
        seen &= key > position - window
    return seen


def reference_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O [batch, heads, seq_q, head_dim] and natural lse [batch, heads, seq_q], both float64.

    Arguments as in `kernels.attention`; S is held whole, seq_q * seq_kv * 8 bytes per head. Rows that see no
    key give O = 0 and lse = -inf.
    """
    group = q.shape[1] // k.shape[1]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    seen = visible_mask(q.shape[2], k.shape[2], causal, window, q.device)
    scores = (scale * (q @ k.mT)).masked_fill(~seen, -torch.inf)
    weights = torch.softmax(scores, -1).masked_fill(~seen, 0.0)
    return weights @ v, torch.logsumexp(scores, -1)
