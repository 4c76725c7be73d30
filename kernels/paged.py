"""Attention over a KV cache in pages: decoding, and prefill by chunks, with new keys appended in the call."""

from collections.abc import Callable
from typing import Unpack

import torch
from torch.utils.flop_counter import register_flop_formula

from kernels.algorithms.flash2 import described, tma_serves
from kernels.algorithms.flash3 import ALGORITHM as FLASH3
from kernels.algorithms.flash3.latent import flash3_latent, unserved
from kernels.algorithms.flash3.paged import flash3_pages, serves
from kernels.algorithms.record import PLAIN
from kernels.algorithms.split_kv import combine_splits, overlapping, row_blocks, strides_of_parts
from kernels.call.call import Call, ceil_div
from kernels.call.options import Pages, asked, signed
from kernels.call.terms import Terms, fine, score_of, terms_with
from kernels.call.value_checks import (
    alike_of,
    as_autocast,
    at_hand,
    check_apart,
    check_untransformed,
    remember,
    resolved,
    traced,
)
from kernels.dispatch.operator import LIBRARY
from kernels.launch.launch import addresses, fitting, interpreted, launch, options_given, output_like, stages
from kernels.pages.kernel import PagedTile, append_kernel, paged_kernel
from kernels.pages.plan import ENDLESS, MANY_ROWS, Plan, check_held, paged_call, plan_of, planned
from kernels.tilings.flash2 import warps

_AGAIN: dict[tuple, Callable] = {}  # by layouts and options: see `_again`
APPENDED = 16  # rows of new keys that a program of `append_kernel` copies


@signed
def attention_paged(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    seqlens_k: torch.Tensor,
    *,
    k_new: torch.Tensor | None = None,
    v_new: torch.Tensor | None = None,
    **given: Unpack[Pages],
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`attention` of each sequence over its own keys, which lie in pages: O like q; with return_lse also lse.

    q is [batch, heads, seq_q, head_dim]; k_cache and v_cache are [pages, page_size, kv_heads, head_dim], any
    page size. Sequence i has seqlens_k[i] keys; key j lies in page block_table[i, j // page_size], in slot
    j % page_size. block_table, [batch, pages per sequence], and seqlens_k, [batch], are int32 or int64 on q's
    device, where they are read when the kernel runs: nothing waits for them, and a CUDA graph replays with
    what they hold then. On a GPU, pages that the cache does not have lead anywhere. Entries behind a
    sequence's last page, and before its window, are never followed.

    k_new and v_new, [batch, kv_heads, seq_new, head_dim], are first written into the cache behind these keys,
    and count; pages for them must be in the table. Keys past the table's end are neither written nor seen.

    The last query stands at the last key; causal, window, scale, softcap, sinks, alibi_slopes and lse are as
    in `attention`, and so is a latent, in pages of 16, 32 or a multiple of 64 keys. splits: of the keys of a
    sequence, chosen by the table's width unless given. No gradients.

    Raises ValueError or TypeError, naming the argument, for what cannot be served.
    """
    alike = alike_of((q, k_cache, v_cache, block_table, seqlens_k), given) if k_new is v_new is None else None
    if again := _AGAIN.get(alike):
        out, lse = again(q, k_cache, v_cache, block_table, seqlens_k)
        return (out, lse) if given.get("return_lse") else out
    options = asked(given, Pages)
    check_untransformed(q, k_cache, v_cache, block_table, seqlens_k, k_new, v_new)
    if getattr(q, "dtype", None) != getattr(k_cache, "dtype", None):
        q, k_new, v_new = as_autocast(q, k_new, v_new)
    q, k, v, block_table, seqlens_k, k_new, v_new = resolved(
        q, k_cache, v_cache, block_table, seqlens_k, k_new, v_new
    )
    if k_new is not None:
        if k is not k_cache or v is not v_cache:
            raise ValueError(
                "k_cache or v_cache is lazily negated, no keys can be written there: resolve_neg() first"
            )
        for name, cache in (("k_cache", k), ("v_cache", v)):
            check_apart(name, cache)
    cache = k, v, block_table, seqlens_k
    tensors = q, *cache, k_new, v_new, options.sinks, options.alibi_slopes
    as_operator = traced(*tensors)
    plan, call = (plan_of(tensors, options), None) if as_operator else planned(tensors, options)
    check_held(*cache, plan.added, q.shape[2] + plan.left)
    terms = terms_with(None, q, options)
    how = *cache, terms.sinks, terms.slopes, *plan
    if as_operator:
        if k_new is not None:
            append_operator(*cache, k_new, v_new)
        out, lse = paged_operator(q, *how)
    else:
        if k_new is not None:
            append(*cache, k_new, v_new, call)
        out, lse = attend(q, *how, call=call)
        lasting = seqlens_k.is_contiguous() and not (at_hand(seqlens_k) and at_hand(block_table))
        if alike and lasting and terms.sinks is terms.slopes is None and not options_given():
            remember(_AGAIN, alike, _again(q, plan, call))
    return (out, lse) if options.return_lse else out


def _again(q, plan: Plan, call: Call) -> Callable:
    """What attends to tensors alike: (q, k_cache, v_cache, block_table, lengths) -> (O, lse)."""
    launch, tiled = call.memory.get("attend", (None, False))
    combine = call.memory.get("combine")
    shape, size = q.shape[:3], call.splits * q.numel()
    if (
        launch is None or combine is None or size % 4
    ):  # or the lse of parts, behind them, would not be aligned

        def again(*tensors):
            return attend(*tensors, None, None, *plan, call=call)

    else:
        numbers = size + call.splits * shape.numel()

        def again(*tensors):
            q = tensors[0]
            out, lse = torch.empty_like(q), torch.empty(shape, dtype=torch.float32, device=q.device)
            parts = torch.empty(numbers, dtype=torch.float32, device=q.device)
            places = [each.data_ptr() for each in (*tensors, parts, out, lse)]
            first = places[5]
            launch(*places[:5], first, first + 4 * size, *(places[1:3] if tiled else ()))
            combine(first, first + 4 * size, *places[6:])
            return out, lse

    return again


def attend(
    q, k_cache, v_cache, block_table, lengths, sinks, slopes, *plan, call: Call | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, lse) of what a `Plan` says, over lengths + added keys. call: the one that it makes, if known."""
    plan = Plan(*plan)
    call = call or paged_call(q, k_cache, block_table, *plan[2:])
    lengths = lengths.contiguous()
    if call.v_dim is not None:
        return _over_latent(q, k_cache, v_cache, block_table, lengths, call, plan, (sinks, slopes))
    if "by_flash3" not in call.memory:
        plain = plan.splits is None and sinks is None and slopes is None and plan.softcap is None
        # a call's window has both sides or none
        plain = plain and plan.left == ENDLESS and plan.right in (0, ENDLESS)
        call.memory["by_flash3"] = plain and serves(q, k_cache, v_cache, call)
    if call.memory["by_flash3"]:
        return flash3_pages(q, k_cache, v_cache, block_table, lengths, call, plan.added)
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    parts = out[None], lse[None]
    if call.splits > 1:
        parts = tuple(
            torch.empty((call.splits, *whole.shape), dtype=torch.float32, device=q.device)
            for whole in (out, lse)
        )
    tensors = q, k_cache, v_cache, block_table, lengths, *parts, sinks, slopes
    again, tiled = call.memory.get("attend", (None, False))
    if again is None or options_given():
        fitting(lambda call: _attend(tensors, call, plan), call)
    else:
        again(*addresses((*tensors, k_cache, v_cache) if tiled else tensors))
    if call.splits > 1:
        combine_splits(*parts, out, lse, call)
    return out, lse


def _over_latent(q, k_cache, v_cache, block_table, lengths, call: Call, plan: Plan, terms: tuple):
    """(O, lse) over pages of a latent; ValueError with one sentence where it is not served."""
    if "flash3_latent" not in call.memory:
        heads_first = [cache.transpose(1, 2) for cache in (k_cache, v_cache)]
        reason = FLASH3.unserved(q, *heads_first, PLAIN, interpreted()) or unserved(
            q, *heads_first, k_cache.shape[1]
        )
        if reason or any(each is not None for each in (*terms, plan.softcap)):
            raise ValueError(f"k_cache is a latent, {reason or 'which has no terms'}")
    return flash3_latent(q, k_cache, v_cache, call, block_table, lengths, plan.added)


def _attend(tensors: tuple, call: Call, plan: Plan) -> None:
    """Launch the kernel of these tensors, and keep its launch in the call's memory."""
    q, k_cache, v_cache, block_table, lengths, partial, partial_lse, *terms = tensors
    tiles = _tiles(q, k_cache, v_cache, block_table, call)
    strides = q.stride(), k_cache.stride(), v_cache.stride(), block_table.stride()
    again = launch(
        paged_kernel,
        call.batch * call.kv_heads * row_blocks(call) * call.splits,
        call,
        (q, k_cache, v_cache, (block_table, lengths), (partial, partial_lse), tuple(terms), *tiles),
        num_warps=warps(call.block_q),
        num_stages=stages(q, 2 * call.block_kv * call.padded_head_dim, call.block_q * call.padded_head_dim),
        strides=(*strides, *strides_of_parts(partial, partial_lse)),
        score=score_of(call, Terms(None, softcap=plan.softcap)),
        heads=call.heads,
        kv_heads=call.kv_heads,
        seq_q=call.seq_q,
        capacity=call.seq_kv,
        added=plan.added,
        left=plan.left,
        right=plan.right,
        splits=call.splits,
        TILE=PagedTile(
            PAGE=_page(k_cache, block_table),
            ALIKE=k_cache.stride() == v_cache.stride(),
            APART=call.block_q >= MANY_ROWS,
            TMA=tiles[0] is not None,
            HEAD_DIM=call.head_dim,
            BLOCK_D=call.padded_head_dim,
            BLOCK_Q=call.block_q,
            BLOCK_KV=call.block_kv,
            FINE=fine(plan.softcap),
            OVERLAPS=overlapping(q),
        ),
    )
    if not options_given():
        call.memory["attend"] = again, tiles[0] is not None


def append(k_cache, v_cache, block_table, lengths, k_new, v_new, call: Call | None = None) -> None:
    """Write k_new and v_new into the pages behind the last key; call: of the same cache, if known."""
    call = call or paged_call(k_new, k_cache, block_table)
    tensors = k_new, v_new, k_cache, v_cache, block_table, lengths.contiguous()
    added = k_new.shape[2]
    if again := call.memory.get("append"):
        again(*addresses(tensors))
        return
    call.memory["append"] = launch(
        append_kernel,
        call.batch * ceil_div(added * call.kv_heads, APPENDED),
        call,
        tensors,
        k_new_strides=k_new.stride(),
        v_new_strides=v_new.stride(),
        k_strides=k_cache.stride(),
        v_strides=v_cache.stride(),
        table_strides=block_table.stride(),
        kv_heads=call.kv_heads,
        capacity=call.seq_kv,
        added=added,
        PAGE=_page(k_cache, block_table),
        HEAD_DIM=call.head_dim,
        BLOCK_D=call.padded_head_dim,
        ROWS=APPENDED,
    )


def _tiles(q, k_cache, v_cache, block_table, call: Call) -> tuple:
    """TMA descriptors of blocks of a head of K and V, where many rows want them and pages hold whole ones."""
    heads_first = [cache.transpose(1, 2) for cache in (k_cache, v_cache)]
    whole = _page(k_cache, block_table) % call.block_kv == 0
    if call.block_q < MANY_ROWS or not whole or not tma_serves(call, q, *heads_first):
        return None, None
    return tuple(described(cache, call.head_dim, call) for cache in heads_first)


def _page(k_cache, block_table) -> int:
    """Keys of a page, 0 where a sequence has but one: then nothing is compiled for its size."""
    return k_cache.shape[1] if block_table.shape[1] > 1 else 0


LIBRARY.define(
    "attention_paged(Tensor q, Tensor k_cache, Tensor v_cache, Tensor block_table, Tensor lengths,"
    " Tensor? sinks, Tensor? slopes, float? softcap, SymInt added, SymInt left, SymInt right, float? scale,"
    " SymInt? splits) -> (Tensor out, Tensor lse)"
)
LIBRARY.define(
    "append_to_pages(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor block_table, Tensor lengths,"
    " Tensor k_new, Tensor v_new) -> ()"
)
LIBRARY.impl("attention_paged", attend, "CompositeExplicitAutograd")
LIBRARY.impl("append_to_pages", append, "CompositeExplicitAutograd")
paged_operator = torch.ops.attention_tiles.attention_paged.default
append_operator = torch.ops.attention_tiles.append_to_pages.default


@register_flop_formula(torch.ops.attention_tiles.attention_paged, get_raw=True)
def _(q, k_cache, v_cache, block_table, lengths, sinks, slopes, softcap, added, *_others, out_val=None):
    room = len(q) * block_table.shape[1] * k_cache.shape[1]
    readable = type(lengths) is torch.Tensor and lengths.device.type != "meta"
    keys = int(lengths.sum()) + len(q) * added if readable else room
    return 2 * q.shape[1] * q.shape[2] * min(keys, room) * (q.shape[3] + v_cache.shape[3])


@torch.library.register_fake(paged_operator, lib=LIBRARY)
def _(q, _k_cache, v_cache, *others):
    return output_like(q, v_cache), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.register_fake(append_operator, lib=LIBRARY)
def _(*tensors):
    return None
