"""Attention in PyTorch's own operations, for forward-mode differentiation, which sees into no kernel.

Code that is compiled or functionalised under torch.func's transforms takes it too: they serve no function
of autograd's there.
"""

import torch

from kernels.call.key_ranges import ranges_of
from kernels.call.terms import Terms
from kernels.dispatch.dispatch import checked


def formula(q, k, v, options: tuple, terms: Terms | None) -> tuple[torch.Tensor, torch.Tensor]:
    """O and lse as `dispatch.run` gives them, computed in float32 with S held whole."""
    call = checked(q, k, v, *options, stand_in=torch.compiler.is_compiling())
    if terms is None:
        sides = None if call.window is None else call.window - 1, 0 if call.causal else None
        terms = Terms(ranges_of(call.seq_q, call.seq_kv, sides, None, None, q.device))
    first, end, position = terms.ranges[:, :, None, :, None].unbind(1)
    keys = torch.arange(call.seq_kv, device=q.device)
    k, v = (each.float().repeat_interleave(call.heads // call.kv_heads, 1) for each in (k, v))
    scores = call.scale * (q.float() @ k.mT)
    if terms.softcap is not None:
        scores = terms.softcap * torch.tanh(scores / terms.softcap)
    if terms.slopes is not None:
        scores = scores - terms.slopes[..., None, None] * (position - keys).abs()
    scores = torch.where((keys >= first) & (keys < end), scores, -torch.inf)
    if terms.sinks is not None:
        sinks = terms.sinks[:, None, None].expand(*scores.shape[:-1], 1)
        scores, v = torch.cat([scores, sinks], -1), torch.nn.functional.pad(v, (0, 0, 0, 1))
    largest = scores.detach().amax(-1, keepdim=True)
    largest = torch.where(largest == -torch.inf, 0.0, largest)  # a row that sees no key
    weights = torch.exp(scores - largest)
    total = weights.sum(-1, keepdim=True)
    out = (weights @ v) / torch.where(total == 0.0, 1.0, total)
    return out.to(q.dtype), (largest + torch.log(total)).squeeze(-1)
