"""What a cache in pages must be, checked in one place."""

import torch

from kernels.call.arguments import LATENT, check_tensor
from kernels.call.value_checks import (
    at_hand,
    check_at_least_0,
    check_build,
    check_index,
    check_strided,
    traced,
)
from kernels.launch.launch import interpreted


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
    """ValueError for lengths and pages at hand, of those followed, which would lead out of the cache.

    added: keys that come behind the lengths; back: as many of the last keys are read, or all.
    """
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


def check_without_gradient(what: str, **tensors: torch.Tensor | None) -> None:
    """ValueError with one sentence where one of these, by name, asks for a gradient."""
    if torch.is_grad_enabled():
        for name, each in tensors.items():
            if each is not None and each.requires_grad:
                raise ValueError(f"{name} requires grad, {what} no gradients: call under torch.no_grad()")


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
    check_strided(name, tensor)
    if tensor.dim() != 4 or 0 in tensor.shape:
        raise ValueError(f"{name} has shape {_shape(tensor)}, it must be {layout}, every size at least 1")
    if tensor.dtype != q.dtype or tensor.device != q.device or tensor.shape[3] != q.shape[3]:
        raise ValueError(
            f"{name} is {tensor.dtype} of head_dim {tensor.shape[3]} on {tensor.device}, it must be as q:"
            f" {q.dtype}, {q.shape[3]}, {q.device}"
        )


def _shape(tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)
