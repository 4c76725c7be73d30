"""Attention over sequences of any lengths, packed end to end without padding."""

from collections.abc import Callable
from typing import Unpack

import torch

from kernels.call.key_ranges import Seen, ranges_of_packed, window_sides
from kernels.call.options import Lengths, asked, signed
from kernels.call.terms import terms_with
from kernels.call.value_checks import (
    alike_of,
    as_autocast,
    at_hand,
    beside,
    check_edges,
    check_index,
    check_layouts,
    flag,
    like_empty,
    remember,
    traced,
)
from kernels.dispatch import dispatch
from kernels.dispatch.dispatch import check, launched_again
from kernels.dispatch.operator import attend

_AGAIN: dict[tuple, Callable] = {}  # by layouts and options: see `dispatch.again`


@signed
def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    **given: Unpack[Lengths],
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`attention` of every sequence by itself, in one launch: O like q, of v's head_dim; also lse if asked.

    q is [queries, heads, head_dim], k and v [keys, kv_heads, head_dim], v's maybe another; sequence i has the
    queries cu_seqlens_q[i] to cu_seqlens_q[i + 1] - 1 and the keys of cu_seqlens_k alike, both int32 or int64
    [sequences + 1] from 0, on q's device, where they are read: nothing waits for them, so that numbers on a
    GPU which do not rise, or to more than there are, give any result. Sequences may be empty. The last query
    of each stands at its last key. lse is float32 [heads, queries]; queries past the last sequence give 0 and
    -inf. flash3's blocks of queries end where sequences do; elsewhere one that holds the end of one and the
    start of the next visits the keys of both. No number of one sequence, nor of what lies past the last,
    reaches another's results or gradients, be it NaN.

    alibi_slopes are [heads]; the other options, gradients and errors are those of `attention`.
    """
    tensors = q, k, v, cu_seqlens_q, cu_seqlens_k
    alike = alike_of(tensors, given)
    if again := _AGAIN.get((alike, cu_seqlens_q is cu_seqlens_k)):
        out, lse = launched_again(again, tensors[3:], q, k, v, given)
        return (out, lse[0]) if given.get("return_lse") else out
    _check_packed(*tensors)
    q, k, v = as_autocast(q, k, v)
    packed = [tensor.transpose(0, 1)[None] for tensor in (q, k, v)]
    options = asked(given, Lengths)
    check(*packed, options)
    sides, sinks = window_sides(flag("causal", options.causal), options.window), options.sinks is not None
    edges = cu_seqlens_q, cu_seqlens_k

    def ranges():
        with beside(q):
            return ranges_of_packed(*edges, len(q), len(k), sides, sinks)

    if traced(q, k, v, *edges):
        terms = terms_with(ranges(), packed[0], options)
    else:
        starts = cu_seqlens_q.contiguous()
        key_starts = starts if cu_seqlens_k is cu_seqlens_q else cu_seqlens_k.contiguous()
        terms = terms_with(None, packed[0], options, Seen(sides, None, starts, key_starts), ranges)
    how = False, None, *options.how
    out, lse = attend(*packed, how, terms)
    out, lse = out[0].transpose(0, 1), lse[0]
    if alike and like_empty(out, q) and not (sinks and options.return_lse):
        lasting = all(each.is_contiguous() and not at_hand(each) for each in edges)
        if lasting and (again := dispatch.again(*packed, how, terms, given)):
            remember(_AGAIN, (alike, cu_seqlens_q is cu_seqlens_k), again)
    if options.return_lse and sinks:  # which count for no row past the last sequence
        past = torch.arange(len(q), device=q.device) >= cu_seqlens_q[-1]
        lse = lse.masked_fill(past, -torch.inf)
    return (out, lse) if options.return_lse else out


def _check_packed(q, k, v, cu_seqlens_q, cu_seqlens_k) -> None:
    check_layouts("[tokens, heads, head_dim]", q=q, k=k, v=v)
    starts = {"cu_seqlens_q": (cu_seqlens_q, len(q)), "cu_seqlens_k": (cu_seqlens_k, len(k))}
    for name, (edges, tokens) in starts.items():
        check_index(name, edges, "[sequences + 1]", q.device)
        if len(edges) < 2 or len(edges) != len(cu_seqlens_q):
            counts = f"{len(cu_seqlens_q)} and {len(cu_seqlens_k)}"
            raise ValueError(
                f"cu_seqlens_q and cu_seqlens_k have {counts} numbers, they must have as many, at least 2"
            )
        check_edges(name, edges, tokens)
