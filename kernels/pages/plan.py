"""What the host works out for attention over pages before it launches: checks, the call, and its splits."""

from dataclasses import replace
from typing import NamedTuple

import torch

from kernels.algorithms.flash3 import latent
from kernels.algorithms.split_kv import row_blocks, split_count, visible_keys
from kernels.call.arguments import LATENT, MAX_SPLITS, check_options, check_tensor, check_terms
from kernels.call.call import Call, default_blocks, split_blocks
from kernels.call.device import device_of
from kernels.call.key_ranges import window_sides
from kernels.call.options import Options
from kernels.call.terms import cap_of
from kernels.call.value_checks import (
    at_hand,
    check_at_least_0,
    check_build,
    check_index,
    check_layout,
    check_without_gradient,
    flag,
    remember,
    traced,
)
from kernels.launch.launch import POINTER_ALIGNMENT, interpreted, multiprocessors
from kernels.tilings.split_kv import page_block


def check_cache(q, k_cache, v_cache, block_table, seqlens_k) -> None:
    """ValueError or TypeError with one sentence for what is no cache in pages for these queries."""
    check_build(q)
    check_tensor("q", q)
    _check_like("k_cache", k_cache, q, "[pages, page_size, kv_heads, head_dim]")
    of_v = q[..., : LATENT[1]] if q.shape[3] == LATENT[0] else q
    _check_like("v_cache", v_cache, of_v, "[pages, page_size, kv_heads, head_dim]")
    if v_cache.shape[:3] != k_cache.shape[:3]:
        raise ValueError(f"v_cache has shape {_shape(v_cache)}, it must be k_cache's, {_shape(k_cache)}")
    heads, kv_heads = q.shape[1], k_cache.shape[2]
    if heads % kv_heads:
        raise ValueError(f"q has {heads} heads, which must be a multiple of the cache's {kv_heads}")
    check_index("block_table", block_table, "[batch, pages per sequence]", q.device, len(q))
    check_index("seqlens_k", seqlens_k, "[batch]", q.device, len(q))
    if q.device.type == "cpu" and not (traced(q) or interpreted()):
        raise ValueError(
            "q is on the CPU, it must be on a GPU, or TRITON_INTERPRET=1 be set before kernels is imported"
        )


def check_held(k_cache, _, block_table, lengths, added: int, back: int) -> None:
    """ValueError for lengths and pages at hand, of those followed, that lead out of the cache."""
    if not (at_hand(lengths) and at_hand(block_table)):
        return
    check_at_least_0("seqlens_k", lengths)
    (pages, size), columns = k_cache.shape[:2], block_table.shape[1]
    lengths = lengths.long().clamp(max=columns * size)
    ends = (lengths + added).clamp(max=columns * size)
    first = torch.minimum(ends - back, lengths).clamp(min=0) // size
    column = torch.arange(columns, device=lengths.device)
    followed = (column >= first[:, None]) & (column < -(-ends // size)[:, None])
    wrong = block_table[followed & ((block_table < 0) | (block_table >= pages))]
    if len(wrong):
        raise ValueError(f"block_table names page {wrong[0]}, it must be from 0 to {pages - 1}")


def check_new(q, k_cache, k_new, v_new) -> None:
    """ValueError or TypeError with one sentence for new keys and values that do not go into this cache."""
    if (k_new is None) != (v_new is None):
        raise ValueError("k_new and v_new must be given both, or neither")
    for name, tensor in (("k_new", k_new), ("v_new", v_new)):
        if tensor is None:
            continue
        _check_like(name, tensor, q, "[batch, kv_heads, seq_new, head_dim]")
        if q.shape[3] == LATENT[0]:
            raise ValueError(f"{name} is given beside a latent, it must be None: write new latents before")
        batch, kv_heads, added, _ = tensor.shape
        if (batch, kv_heads) != (len(q), k_cache.shape[2]) or added != k_new.shape[2]:
            raise ValueError(
                f"{name} has shape {_shape(tensor)}, it must be [{len(q)}, {k_cache.shape[2]}, seq_new,"
                f" {q.shape[3]}], k_new and v_new alike"
            )


def _check_like(name: str, tensor, q, layout: str) -> None:
    """A sentence for a tensor that is not of four dimensions, of q's head_dim, dtype and device."""
    check_layout(name, tensor, layout)
    if 0 in tensor.shape:
        raise ValueError(f"{name} has shape {_shape(tensor)}, every size must be at least 1")
    if tensor.dtype != q.dtype or tensor.device != q.device or tensor.shape[3] != q.shape[3]:
        raise ValueError(
            f"{name} is {tensor.dtype} of head_dim {tensor.shape[3]} on {tensor.device}, it must be as q:"
            f" {q.dtype}, {q.shape[3]}, {q.device}"
        )


def _shape(tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


ENDLESS = 2**30  # keys: more than any cache holds
MANY_ROWS = 128  # from which on a block has as many, and eight warps
WIDE = 128  # keys of a block of many rows of this head dim, where a page holds one
TURNS, LONG = 8, 4096  # programs that an SM gets in turn, and keys of a split that hardly costs anything
_PLANNED: dict[tuple, tuple["Plan", Call]] = {}  # by layout of the tensors and options


class Plan(NamedTuple):
    """What is asked for beside the tensors: a query at position p sees the keys p - left to p + right."""

    softcap: float | None
    added: int
    left: int
    right: int
    scale: float | None
    splits: int | None


def planned(tensors: tuple, options: Options) -> tuple[Plan, Call]:
    """The plan and its call, worked out once for tensors of the same layouts and the same options."""
    plain = options.causal, options.window, options.scale, options.softcap, options.splits
    try:
        alike = (*map(_layout, tensors), *plain, *map(type, plain), torch.is_grad_enabled())
        found = _PLANNED.get(alike)
    except (AttributeError, TypeError, RuntimeError):  # of no tensors with strides, or unhashable: refused
        alike = found = None
    if found is None:
        plan, (q, k_cache, _, block_table, *_) = plan_of(tensors, options), tensors
        found = plan, paged_call(q, k_cache, block_table, *plan[2:])
        remember(_PLANNED, alike, found)
    return found


def plan_of(tensors: tuple, options: Options) -> Plan:
    """The checked plan; ValueError or TypeError with one sentence for what cannot be served."""
    *cache, k_new, v_new, sinks, _ = tensors
    q, k_cache, v_cache, *_ = cache
    check_cache(*cache)
    check_new(q, k_cache, k_new, v_new)
    check_options(options.window, *options.how, {"auto": MAX_SPLITS})
    check_terms(q, k_cache, options)
    named = {"q": q, "k_cache": k_cache, "v_cache": v_cache, "k_new": k_new, "v_new": v_new, "sinks": sinks}
    check_without_gradient("a cache in pages has", **named)
    sides = window_sides(flag("causal", options.causal), options.window)
    left, right = (min(ENDLESS, ENDLESS if side is None else side) for side in sides)
    softcap = cap_of(options.softcap)
    added = 0 if k_new is None else k_new.shape[2]
    return Plan(softcap, added, left, right, options.scale, options.splits)


def _layout(tensor: torch.Tensor | None) -> tuple | None:
    """All of a tensor that a plan and a launch depend on."""
    if tensor is None:
        return None
    aligned = tensor.data_ptr() % POINTER_ALIGNMENT == 0
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, aligned, tensor.requires_grad


def paged_call(
    q, k_cache, block_table, left: int = ENDLESS, right: int = ENDLESS, scale=None, splits: int | None = None
) -> Call:
    """The call that these make: by the table's width, as the lengths are known on the device alone."""
    batch, heads, seq_q, head_dim = q.shape
    page_size, kv_heads = k_cache.shape[1:3]
    rows = heads // kv_heads * seq_q
    many = rows >= MANY_ROWS and q.element_size() == 2
    of_dtype = head_dim, q.dtype, q.device
    blocks = default_blocks(rows, *of_dtype) if many else split_blocks(rows, *of_dtype)
    if many and head_dim == WIDE and page_size % WIDE == 0 and device_of(q.device).measured:
        blocks = WIDE, WIDE  # with TMA, faster by 11 % on an H200
    if not many:
        blocks = blocks[0], page_block(blocks[1], batch, page_size)
    call = Call(
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        seq_q=seq_q,
        seq_kv=block_table.shape[1] * page_size,
        head_dim=head_dim,
        causal=right == 0,
        window=left + right + 1 if left + right < ENDLESS else None,
        scale=head_dim**-0.5 if scale is None else float(scale),
        algorithm="attention_paged",
        block_q=blocks[0],
        block_kv=blocks[1],
        splits=splits,
        v_dim=LATENT[1] if head_dim == LATENT[0] else None,
    )
    choose = latent.split_count if call.v_dim else _splits
    return call if splits else replace(call, splits=choose(call, multiprocessors(q.device)))


def _splits(call: Call, processors: int) -> int:
    """As split_kv has them; of several sequences more, as the longest of them may outlast the others."""
    few = split_count(call, processors)
    if call.batch == 1:
        return few
    programs = call.batch * call.kv_heads * row_blocks(call)
    return max(few, min(TURNS * processors // programs, visible_keys(call) // LONG, MAX_SPLITS))
