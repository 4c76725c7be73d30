"""What the functions of `kernels.flash_attn` are given, checked before it is laid out for these kernels."""

import torch

from kernels.call.value_checks import check_strided, shown

INDEX = (torch.int32, torch.int64)
DENSE, PACKED = "[batch, sequence, heads, head_dim]", "[tokens, heads, head_dim]"
CACHE = "[batch or pages, sequence, kv_heads, head_dim]"
ROTARY = "[positions, pairs]"
DIMENSIONS = {DENSE: 4, PACKED: 3, CACHE: 4, ROTARY: 2}  # counted once: these functions run in every call
INDEX_LAYOUTS = {
    "cache_batch_idx": "[batch]",
    "cache_leftpad": "[batch]",
    "block_table": "[batch, pages per sequence]",
}


def check_tensors(layout: str, **tensors) -> None:
    """TypeError or ValueError with one sentence for what is no tensor of the dimensions of its layout."""
    dimensions = DIMENSIONS[layout]
    for name, tensor in tensors.items():
        if _strided(tensor, dimensions):
            continue
        check_strided(name, tensor)
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, it must be {layout}")


def check_packed_over_pages(q, k, v, block_table, cu_seqlens_q, cu_seqlens_k, longest) -> None:
    """A sentence for packed queries that cannot be laid side by side over pages."""
    check_tensors(PACKED, q=q)
    check_tensors(CACHE, k=k, v=v)
    _check_index("block_table", block_table, INDEX_LAYOUTS["block_table"], q)
    for name, edges in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
        _check_index(name, edges, "[sequences + 1]", q)
        if len(edges) != len(block_table) + 1:
            raise ValueError(
                f"{name} has {len(edges)} numbers, it must have one more than block_table, {len(block_table)}"
            )
    if not isinstance(longest, int) or longest < 1:
        raise ValueError(f"max_seqlen_q is {shown(longest)}, it must be a whole number, at least 1")


def check_with_cache(q, k_cache, v_cache, lengths, given: dict, index: dict) -> None:
    """A sentence for queries, a cache, what is given with them and what is looked up that do not fit."""
    if not (_strided(q, 4) and _strided(k_cache, 4) and _strided(v_cache, 4)):  # as they nearly always are
        check_tensors(DENSE, q=q)
        check_tensors(CACHE, k_cache=k_cache, v_cache=v_cache)
    for name, tensor in given.items():
        if tensor is not None:
            check_tensors(ROTARY if name.startswith("rotary") else DENSE, **{name: tensor})
    for name, tensor in index.items():
        if tensor is not None:
            _check_index(name, tensor, INDEX_LAYOUTS[name], q)
            if name != "block_table" and len(tensor) != len(q):
                raise ValueError(
                    f"{name} has {len(tensor)} numbers, it must have one for each of {len(q)} sequences"
                )
    if isinstance(lengths, int) and not 0 <= lengths < 2**31:
        raise ValueError(f"cache_seqlens is {lengths}, it must be from 0 to {2**31 - 1}")
    if lengths is not None and not isinstance(lengths, int):
        _check_index("cache_seqlens", lengths, "[batch]", q)
    rows = index["cache_batch_idx"]
    if rows is not None and rows.device.type == "cpu" and len(rows):  # elsewhere it would be waited for
        most = len(k_cache if index["block_table"] is None else index["block_table"])
        if rows.min() < 0 or rows.max() >= most:
            raise ValueError(f"cache_batch_idx is {shown(rows)}, each must be from 0 to {most - 1}")


def check_sides(window_size) -> None:
    """ValueError with one sentence for what is no pair of numbers of keys."""
    pair = isinstance(window_size, tuple | list) and len(window_size) == 2
    if not pair or not isinstance(window_size[0], int) or not isinstance(window_size[1], int):
        raise ValueError(
            f"window_size is {shown(window_size)}, it must be two whole numbers of keys, -1 being without end"
        )


def _strided(tensor, dimensions: int) -> bool:
    """Whether it is a tensor with strides, of so many dimensions."""
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != dimensions:
        return False
    return tensor.layout is torch.strided and not tensor.is_nested


def _check_index(name: str, tensor, layout: str, q) -> None:
    whole = isinstance(tensor, torch.Tensor) and tensor.dtype in INDEX and tensor.device == q.device
    if not whole or tensor.dim() != layout.count(",") + 1:
        raise ValueError(f"{name} must be int32 or int64 {layout} on q's device, {q.device}")
