"""What the functions of `kernels.flash_attn` are given, checked before it is laid out for these kernels."""

import math

import torch

from kernels.call.arguments import DTYPES, MAX_SPLITS
from kernels.call.value_checks import (
    at_hand,
    check_at_least_0,
    check_edges,
    check_index,
    check_layout,
    positive,
    said,
    shown,
    whole,
)
from kernels.tilings.flash2 import MAX_HEAD_DIM

DENSE, PACKED = "[batch, sequence, heads, head_dim]", "[tokens, heads, head_dim]"
CACHE = "[batch or pages, sequence, kv_heads, head_dim]"
ROTARY = "[positions, pairs]"
INDEX_LAYOUTS = {
    "cache_batch_idx": "[batch]",
    "cache_leftpad": "[batch]",
    "block_table": "[batch, pages per sequence]",
}


def check_tensors(layout: str, **tensors) -> None:
    """TypeError or ValueError with one sentence for what is no tensor of the dimensions of its layout."""
    for name, tensor in tensors.items():
        check_layout(name, tensor, layout)


def check_packed_over_pages(q, k, v, block_table, cu_seqlens_q, cu_seqlens_k, longest) -> None:
    """A sentence for packed queries that cannot be laid side by side over pages."""
    check_tensors(PACKED, q=q)
    check_tensors(CACHE, k=k, v=v)
    check_index("block_table", block_table, INDEX_LAYOUTS["block_table"], q.device)
    for name, edges, most in (("cu_seqlens_q", cu_seqlens_q, len(q)), ("cu_seqlens_k", cu_seqlens_k, None)):
        check_index(name, edges, "[sequences + 1]", q.device)
        if len(edges) != len(block_table) + 1:
            raise ValueError(
                f"{name} has {len(edges)} numbers, it must have one more than block_table, {len(block_table)}"
            )
        check_edges(name, edges, most)
    if not whole(longest, 1):
        raise ValueError(f"max_seqlen_q is {shown(longest)}, it must be a whole number, at least 1")
    if at_hand(cu_seqlens_q) and (most := cu_seqlens_q.diff().max()) > longest:
        raise ValueError(
            f"max_seqlen_q is {longest}, it must be at least that of the longest sequence, {most}"
        )


def check_with_cache(q, k_cache, v_cache, lengths, given: dict, index: dict) -> None:
    """A sentence for queries, a cache, what is given with them and what is looked up that do not fit."""
    check_layout("q", q, DENSE)
    check_layout("k_cache", k_cache, CACHE)
    check_layout("v_cache", v_cache, CACHE)
    for name, tensor in given.items():
        if tensor is not None:
            check_tensors(ROTARY if name.startswith("rotary") else DENSE, **{name: tensor})
    for name, tensor in index.items():
        if tensor is not None:
            check_index(
                name, tensor, INDEX_LAYOUTS[name], q.device, None if name == "block_table" else len(q)
            )
    if whole(lengths, -math.inf):
        if not 0 <= lengths < 2**31:
            raise ValueError(f"cache_seqlens is {lengths}, it must be from 0 to {2**31 - 1}")
    elif lengths is not None:
        check_index("cache_seqlens", lengths, "[batch]", q.device, len(q))
        check_at_least_0("cache_seqlens", lengths)
    rows, leftpad = index["cache_batch_idx"], index["cache_leftpad"]
    if rows is not None and at_hand(rows):
        most = len(k_cache if index["block_table"] is None else index["block_table"])
        if rows.min() < 0 or rows.max() >= most:
            raise ValueError(f"cache_batch_idx is {shown(rows)}, each must be from 0 to {most - 1}")
    if leftpad is not None and at_hand(leftpad):
        room = k_cache.shape[1] * (1 if index["block_table"] is None else index["block_table"].shape[1])
        held = room if lengths is None else lengths
        if (leftpad < 0).any() or (leftpad > held).any():
            raise ValueError(
                f"cache_leftpad is {shown(leftpad)}, each must be from 0 to its cache's keys, {shown(held)}"
            )


def check_rotary(q, cos, sin, lengths, positions: int) -> None:
    """A sentence for tables that do not hold the angles of so many positions behind the caches' keys."""
    pairs = q.shape[-1] // 2
    for name, table in (("rotary_cos", cos), ("rotary_sin", sin)):
        if table.shape != cos.shape or not 1 <= table.shape[1] <= pairs or not table.is_floating_point():
            dtype, shape = str(table.dtype).removeprefix("torch."), tuple(table.shape)
            raise ValueError(
                f"{name} is {dtype} {shape}, it must be floating-point {ROTARY}, of 1 to {pairs} pairs, and"
                " as the other"
            )
        if table.device != q.device:
            raise ValueError(f"{name} is on {table.device} and q on {q.device}, they must be on one device")
    longest = lengths if whole(lengths, 0) else lengths.max() if at_hand(lengths) else None
    if longest is not None and longest + positions > len(cos):
        raise ValueError(
            f"rotary_cos has {len(cos)} positions, it must have those of the longest sequence with what is"
            f" new, {longest + positions}"
        )


def check_what_goes_with(q, k_cache, given: dict, index: dict) -> None:
    """A sentence for new keys, or rows of a cache, that do not go with it."""
    kv_heads, head_dim = k_cache.shape[2:]
    k, v = given["k"], given["v"]
    for name, tensor in (("k", k), ("v", v)):
        alike = tensor is None or (
            (len(tensor), *tensor.shape[2:]) == (len(q), kv_heads, head_dim)
            and 0 < tensor.shape[1] == k.shape[1]
            and (tensor.dtype, tensor.device) == (k_cache.dtype, k_cache.device)
        )
        if not alike:
            wanted = f"[{len(q)}, seq_new, {kv_heads}, {head_dim}] of k_cache's dtype, k and v alike"
            raise ValueError(f"{name} is {said(tensor)}, it must be {wanted}")
    if index["block_table"] is index["cache_batch_idx"] is None and len(k_cache) < len(q):
        raise ValueError(f"k_cache has {len(k_cache)} rows, it must have one for each of {len(q)} sequences")


def check_scale_and_splits(softmax_scale, num_splits) -> None:
    """ValueError with one sentence for what is no scale, and for what is no number of splits."""
    if softmax_scale is not None and not positive(softmax_scale):
        raise ValueError(f"softmax_scale is {shown(softmax_scale)}, it must be a finite number above 0")
    if not whole(num_splits, 0) or num_splits > MAX_SPLITS:
        raise ValueError(
            f"num_splits is {shown(num_splits)}, it must be a whole number from 0 to {MAX_SPLITS}"
        )


def check_starts(name: str, edges, q) -> None:
    """A sentence for numbers that do not say where packed sequences begin."""
    check_index(name, edges, "[sequences + 1]", q.device)
    if len(edges) < 2:
        raise ValueError(f"{name} has {len(edges)} numbers, it must have at least 2")
    check_edges(name, edges, len(q))


def parted(name: str, tensor, layout: str, q=None) -> tuple[torch.Tensor, ...]:
    """q, k and v, or k and v that go with q, of one tensor; a sentence for one that is none."""
    check_layout(name, tensor, layout)
    if tensor.shape[-3] != (3 if q is None else 2):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, it must be {layout}")
    if q is None:
        if tensor.dtype not in DTYPES or not 1 <= tensor.shape[-1] <= MAX_HEAD_DIM or not tensor.numel():
            raise ValueError(
                f"{name} is {said(tensor)}, it must be float32, float16 or bfloat16, of a head_dim up to"
                f" {MAX_HEAD_DIM} and no size 0"
            )
    elif isinstance(q, torch.Tensor) and q.dim() == tensor.dim() - 1:
        heads, head_dim = q.shape[-2:]
        kv_heads, width = tensor.shape[-2:]
        batches = q.dim() == 3 or len(q) == len(tensor)
        alike = (q.device, head_dim) == (tensor.device, width) and kv_heads and heads % kv_heads == 0
        alike = alike and (q.dtype == tensor.dtype or torch.is_autocast_enabled(q.device.type))
        if not (alike and batches):
            raise ValueError(f"{name} is {said(tensor)}, which does not go with q, {said(q)}")
    return tensor.unbind(-3)


def check_sides(window_size) -> None:
    """ValueError with one sentence for what is no pair of numbers of keys."""
    pair = isinstance(window_size, tuple | list) and len(window_size) == 2
    if not pair or not all(whole(side, -math.inf) for side in window_size):
        raise ValueError(
            f"window_size is {shown(window_size)}, it must be two whole numbers of keys, -1 being without end"
        )
