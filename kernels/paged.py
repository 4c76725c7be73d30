"""Attention over a KV cache in pages: decoding, and prefill by chunks, with new keys appended in the call."""

from dataclasses import replace

import torch

from kernels.arguments import (
    Call,
    ceil_div,
    check_options,
    check_tensor,
    check_terms,
    default_blocks,
    split_blocks,
)
from kernels.dispatch import tma_serves
from kernels.flash2 import described
from kernels.launch import interpreted, launch, multiprocessors, stages, warps
from kernels.operator import LIBRARY, traced
from kernels.paged_kernel import append_kernel, paged_kernel
from kernels.ranges import window_sides
from kernels.split_kv import combine_splits, row_blocks, split_count
from kernels.terms import Terms, scales

ENDLESS = 2**30  # keys: more than any cache holds
MANY_ROWS = 128  # from which on a block has as many, and eight warps
APPENDED = 16  # rows of new keys that a program of `append_kernel` copies
INDEX = (torch.int32, torch.int64)


def attention_paged(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    seqlens_k: torch.Tensor,
    *,
    k_new: torch.Tensor | None = None,
    v_new: torch.Tensor | None = None,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    splits: int | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`attention` of each sequence over its own keys, which lie in pages: O like q; with return_lse also lse.

    q is [batch, heads, seq_q, head_dim]; k_cache and v_cache are [pages, page_size, kv_heads, head_dim], any
    page size. Sequence i has seqlens_k[i] keys; key j lies in page block_table[i, j // page_size], in slot
    j % page_size. block_table, [batch, pages per sequence], and seqlens_k, [batch], are int32 or int64 on q's
    device, where they are read when the kernel runs: nothing waits for them, and a CUDA graph replays with
    what they hold then. Entries behind a sequence's last page, and before its window, are never followed.

    k_new and v_new, [batch, kv_heads, seq_new, head_dim], are first written into the cache behind these keys,
    and count; pages for them must be in the table. Keys past the table's end are neither written nor seen.

    The last query stands at the last key; causal, window, scale, softcap, sinks, alibi_slopes and lse are as
    in `attention`. splits: of the keys of a sequence, chosen by the table's width unless given. No gradients.

    Raises ValueError or TypeError, naming the argument, for what cannot be served.
    """
    _check_cache(q, k_cache, v_cache, block_table, seqlens_k)
    _check_new(q, k_cache, k_new, v_new)
    check_options(window, scale, "split_kv", None, None, splits, ("split_kv",))
    check_terms(q, k_cache, window, None, None, softcap, sinks, alibi_slopes)
    added = 0 if k_new is None else k_new.shape[2]
    as_operator = traced(q, k_cache, v_cache, block_table, seqlens_k)
    if added:
        put = append_operator if as_operator else append
        put(k_cache, v_cache, block_table, seqlens_k, k_new, v_new)
    sinks = None if sinks is None else sinks.float().contiguous()
    slopes = None if alibi_slopes is None else alibi_slopes.float().expand(q.shape[:2]).contiguous()
    cap = None if softcap is None else float(softcap)
    left, right = (ENDLESS if side is None else side for side in window_sides(causal, window))
    options = sinks, slopes, cap, added, min(left, ENDLESS), min(right, ENDLESS), scale, splits
    run = paged_operator if as_operator else attend
    out, lse = run(q, k_cache, v_cache, block_table, seqlens_k, *options)
    return (out, lse) if return_lse else out


def attend(
    q, k_cache, v_cache, block_table, lengths, sinks, slopes, softcap, added, left, right, scale, splits
) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, lse) over lengths + added keys; a query at position p sees the keys p - left to p + right."""
    call = paged_call(q, k_cache, block_table, left, right, scale, splits)
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    parts = out[None], lse[None]
    if call.splits > 1:
        parts = tuple(
            torch.empty((call.splits, *whole.shape), dtype=torch.float32, device=q.device)
            for whole in (out, lse)
        )
    partial, partial_lse = parts
    tiles = _tiles(q, k_cache, v_cache, block_table, call)
    launch(
        paged_kernel,
        call.batch * call.kv_heads * row_blocks(call) * call.splits,
        call,
        (q, k_cache, v_cache, block_table, lengths, partial, partial_lse, sinks, slopes, *tiles),
        num_warps=warps(call.block_q),
        num_stages=stages(call, q, streamed_rows=2 * call.block_kv, resident_rows=call.block_q),
        q_strides=q.stride(),
        k_strides=k_cache.stride(),
        v_strides=v_cache.stride(),
        table_strides=block_table.stride(),
        partial_strides=partial.stride()[1:],
        split_stride=partial.stride(0),
        lse_split_stride=partial_lse.stride(0),
        capacity=call.seq_kv,
        added=added,
        left=left,
        right=right,
        splits=call.splits,
        PAGE=_page(k_cache, block_table),
        APART=call.block_q >= MANY_ROWS,
        TMA=tiles[0] is not None,
        ALIKE=k_cache.stride() == v_cache.stride(),
        **scales(call, Terms(None, softcap=softcap)),
        **{name: size for name, size in call.sizes.items() if name != "seq_kv"},
    )
    if call.splits > 1:
        combine_splits(partial, partial_lse, out, lse, call)
    return out, lse


def append(k_cache, v_cache, block_table, lengths, k_new, v_new) -> None:
    """Write new keys and values, [batch, kv_heads, seq_new, head_dim], into the pages behind the last."""
    call = paged_call(k_new, k_cache, block_table)
    added = k_new.shape[2]
    launch(
        append_kernel,
        call.batch * ceil_div(added * call.kv_heads, APPENDED),
        call,
        (k_new, v_new, k_cache, v_cache, block_table, lengths),
        num_warps=4,
        num_stages=1,
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


def paged_call(
    q, k_cache, block_table, left: int = ENDLESS, right: int = ENDLESS, scale=None, splits: int | None = None
) -> Call:
    """The call that these make: by the table's width, as the lengths are known on the device alone."""
    batch, heads, seq_q, head_dim = q.shape
    page_size, kv_heads = k_cache.shape[1:3]
    rows = heads // kv_heads * seq_q
    many = rows >= MANY_ROWS and q.element_size() == 2
    blocks = default_blocks(head_dim, q.dtype) if many else split_blocks(rows, head_dim, q.dtype)
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
    )
    return call if splits else replace(call, splits=split_count(call, multiprocessors(q.device)))


def _tiles(q, k_cache, v_cache, block_table, call: Call) -> tuple:
    """TMA descriptors of blocks of a head of K and V, where many rows want them and pages hold whole ones."""
    heads_first = [cache.transpose(1, 2) for cache in (k_cache, v_cache)]
    whole = _page(k_cache, block_table) % call.block_kv == 0
    if call.block_q < MANY_ROWS or not whole or not tma_serves(q, *heads_first):
        return None, None
    return tuple(described(cache, call) for cache in heads_first)


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


@torch.library.register_fake(paged_operator, lib=LIBRARY)
def _(q, *others):
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.register_fake(append_operator, lib=LIBRARY)
def _(*tensors):
    return None


def _check_cache(q, k_cache, v_cache, block_table, seqlens_k) -> None:
    check_tensor("q", q)
    _check_like("k_cache", k_cache, q, "[pages, page_size, kv_heads, head_dim]")
    _check_like("v_cache", v_cache, q, "[pages, page_size, kv_heads, head_dim]")
    if v_cache.shape != k_cache.shape:
        raise ValueError(f"v_cache has shape {_shape(v_cache)}, it must be k_cache's, {_shape(k_cache)}")
    heads, kv_heads = q.shape[1], k_cache.shape[2]
    if heads % kv_heads:
        raise ValueError(f"q has {heads} heads, which must be a multiple of the cache's {kv_heads}")
    for name, index, shape in (
        ("block_table", block_table, "[batch, pages per sequence]"),
        ("seqlens_k", seqlens_k, "[batch]"),
    ):
        whole = isinstance(index, torch.Tensor) and index.dtype in INDEX and index.device == q.device
        if not whole or index.dim() != shape.count(",") + 1 or len(index) != len(q) or not index.numel():
            raise ValueError(
                f"{name} must be int32 or int64 {shape} on q's device, {q.device}, for {len(q)} sequences"
            )
    if torch.is_grad_enabled() and any(each.requires_grad for each in (q, k_cache, v_cache)):
        raise ValueError("q or the cache requires grad, a cache has no gradients: call under torch.no_grad()")
    if q.device.type == "cpu" and not (traced(q) or interpreted()):
        raise ValueError(
            "q is on the CPU, it must be on a GPU, or TRITON_INTERPRET=1 be set before kernels is imported"
        )


def _check_new(q, k_cache, k_new, v_new) -> None:
    if (k_new is None) != (v_new is None):
        raise ValueError("k_new and v_new must be given both, or neither")
    for name, tensor in (("k_new", k_new), ("v_new", v_new)):
        if tensor is None:
            continue
        _check_like(name, tensor, q, "[batch, kv_heads, seq_new, head_dim]")
        batch, kv_heads, added, _ = tensor.shape
        if (batch, kv_heads) != (len(q), k_cache.shape[2]) or added != k_new.shape[2]:
            raise ValueError(
                f"{name} has shape {_shape(tensor)}, it must be [{len(q)}, {k_cache.shape[2]}, seq_new,"
                f" {q.shape[3]}], k_new and v_new alike"
            )


def _check_like(name: str, tensor, q, layout: str) -> None:
    """A sentence for a tensor that is not of four dimensions, of q's head_dim, dtype and device."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}, it must be a torch.Tensor")
    if tensor.dim() != 4 or 0 in tensor.shape:
        raise ValueError(f"{name} has shape {_shape(tensor)}, it must be {layout}, every size at least 1")
    if tensor.dtype != q.dtype or tensor.device != q.device or tensor.shape[3] != q.shape[3]:
        raise ValueError(
            f"{name} is {tensor.dtype} of head_dim {tensor.shape[3]} on {tensor.device}, it must be as q:"
            f" {q.dtype}, {q.shape[3]}, {q.device}"
        )


def _shape(tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)
