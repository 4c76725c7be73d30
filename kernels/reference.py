"""Attention in float64 PyTorch, as the formula says it: what every kernel is held against."""

from typing import Unpack

import torch

from kernels.call.arguments import check_terms, check_window
from kernels.call.formula import attention_by_formula
from kernels.call.options import Options, Seen, asked, signed
from kernels.call.value_checks import check_layouts


def visible_mask(seq_q: int, seq_kv: int, options: Options, device=None) -> torch.Tensor:
    """[seq_q, seq_kv] bool: the keys each query sees (see `kernels.attention`)."""
    causal, window = options.causal, options.window
    documents, prefix = options.documents, options.prefix
    position = torch.arange(seq_q, device=device)[:, None] + (seq_kv - seq_q)
    key = torch.arange(seq_kv, device=device)[None, :]
    seen = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=device)
    left, right = window if isinstance(window, tuple | list) else (window and window - 1, window and 0)
    if causal or right is not None:
        seen = seen & (key <= position + (min(right or 0, 0) if causal else right))
    if left is not None:
        seen = seen & (key >= position - left)
    if documents is not None:
        owner = torch.repeat_interleave(torch.tensor(list(map(int, documents)), device=device))
        seen = seen & (owner[position.clamp(min=0)] == owner[key])
    if prefix is not None:
        seen = seen | (key < prefix)
    return seen


@signed
def reference_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **given: Unpack[Seen]
) -> tuple[torch.Tensor, torch.Tensor]:
    """O [batch, heads, seq_q, head_dim of v] and natural lse [batch, heads, seq_q], both float64.

    Arguments as in `kernels.attention`; S is held whole, seq_q * seq_kv * 8 bytes per head. Rows that see no
    key give O = 0 and lse = -inf, or their sink's logit.
    """
    check_layouts("[batch, heads, sequence, head_dim]", q=q, k=k, v=v)
    if (len(q), q.shape[3]) != (len(k), k.shape[3]) or k.shape[:3] != v.shape[:3] or q.shape[1] % k.shape[1]:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (q, k, v))
        raise ValueError(f"q, k and v have shapes {shapes}, which make no attention")
    options = asked(given, Seen)
    check_window(options.window)
    check_terms(q, k, options._replace(window=None))  # a prefix beside a window has an attention too
    sinks, slopes = (
        each if each is None else each.double() for each in (options.sinks, options.alibi_slopes)
    )
    seen = visible_mask(q.shape[2], k.shape[2], options, q.device)
    position = torch.arange(k.shape[2] - q.shape[2], k.shape[2], device=q.device)
    distance = (position[:, None] - torch.arange(k.shape[2], device=q.device)).abs()
    scale = q.shape[-1] ** -0.5 if options.scale is None else options.scale
    wide = q.double(), k.double(), v.double()
    return attention_by_formula(*wide, seen, distance, scale, options.softcap, slopes, sinks)
