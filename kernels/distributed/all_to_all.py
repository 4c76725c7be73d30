"""Ulysses (arXiv 2309.14509): from a part of the tokens to a part of the heads and back, one call between."""

from functools import cache

import torch
import torch.distributed as dist

from kernels.call.call import Call
from kernels.dispatch.dispatch import forward, gradients
from kernels.distributed.layout import Layout
from kernels.distributed.team import Team


@cache
def _order(layout: Layout, device: torch.device) -> torch.Tensor:
    """[tokens] where in the sequence each lies, rank by rank."""
    spans = [span for held in layout.spans for span in held]
    return torch.cat([torch.arange(span.start, span.stop, device=device) for span in spans])


def _exchanged(team: Team, layout: Layout, sent: torch.Tensor, heads: bool) -> torch.Tensor:
    """What comes of rows [rows, ...] that go, rank by rank, to the ranks of heads, or else of tokens."""
    every = [layout.rows(rank) for rank in range(layout.ranks)]
    own = [every[team.rank]] * layout.ranks
    take, put = (own, every) if heads else (every, own)
    got = sent.new_empty(sum(put), *sent.shape[1:])
    of_bytes = (each.flatten(1).view(torch.uint8) for each in (got, sent))
    dist.all_to_all_single(*of_bytes, put, take, group=team.transfers)
    return got


def to_heads(team: Team, layout: Layout, tensor: torch.Tensor) -> torch.Tensor:
    """All tokens of this rank's heads, from this rank's tokens of all heads [batch, heads, rows, columns]."""
    by_rank = tensor.unflatten(1, (layout.ranks, -1)).permute(1, 3, 0, 2, 4)
    got = _exchanged(team, layout, by_rank.flatten(0, 1).contiguous(), heads=True)
    if layout.zigzag:
        got = torch.empty_like(got).index_copy_(0, _order(layout, tensor.device), got)
    return got.permute(1, 2, 0, 3)


def to_tokens(team: Team, layout: Layout, tensor: torch.Tensor) -> torch.Tensor:
    """The way back."""
    rows = tensor.permute(2, 0, 1, 3)
    by_rank = rows[_order(layout, tensor.device)] if layout.zigzag else rows.contiguous()
    got = _exchanged(team, layout, by_rank, heads=False)
    return got.unflatten(0, (layout.ranks, -1)).permute(2, 0, 3, 1, 4).flatten(1, 2)


def attend(team: Team, layout: Layout, call: Call, q, k, v):
    """O and lse of this rank's tokens, and what the backward pass needs: q, k, v, O and lse of its heads."""
    tensors = [to_heads(team, layout, each) for each in (q, k, v)]
    out, lse = forward(*tensors, call.causal, call.window, call.scale)
    results = (to_tokens(team, layout, each) for each in (out, lse[..., None]))
    return next(results), next(results)[..., 0], [*tensors, out, lse]


def differentiate(team: Team, layout: Layout, call: Call, saved, d_out, d_lse) -> tuple[torch.Tensor, ...]:
    """dQ, dK and dV of this rank's tokens, from the gradients of its O and lse (either may be None)."""
    d_out = torch.zeros_like(saved[3]) if d_out is None else to_heads(team, layout, d_out)
    d_lse = None if d_lse is None else to_heads(team, layout, d_lse[..., None])[..., 0]
    found = gradients(*saved, d_out, d_lse, call.causal, call.window, call.scale)[:3]
    return tuple(to_tokens(team, layout, each) for each in found)
