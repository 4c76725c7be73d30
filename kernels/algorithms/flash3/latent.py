"""Decoding over a latent, of 64 heads a block of threads: which calls it serves, and its launch."""

import math

import torch

from kernels.algorithms.flash3.forward import _descriptor, compiled_for, relaunched, started
from kernels.algorithms.split_kv import combine_splits
from kernels.call.arguments import LATENT, MAX_SPLITS
from kernels.call.call import Call, ceil_div
from kernels.tilings.split_kv import latent_splits

HOW = {"CONSUMERS": 3, "CONSUMER_REGISTERS": 168, "PRODUCER_REGISTERS": 24}
ROWS, KEYS, COLUMNS = 64, 64, 64  # heads of a block of threads, keys of a block, columns of a copy
SMALLEST_PAGE = 16  # keys: below, a copy moves less than TMA is made for


def unserved(q, k, v, page: int = KEYS) -> str | None:
    """One sentence on why these, of the head dims of a latent, are no decoding over one; or None."""
    if q.shape[2] != 1 or k.shape[1] != 1:
        return f"flash3 takes a latent of one head for one query, got {k.shape[1]} and {q.shape[2]}"
    if page % KEYS and (KEYS % page or page < SMALLEST_PAGE):
        sizes = f"{SMALLEST_PAGE}, 32 or a multiple of {KEYS} keys"
        return f"flash3 takes a latent in pages of {sizes}, got {page}"
    if k.data_ptr() != v.data_ptr() or k.stride() != v.stride():
        return f"flash3 takes a latent whose first {LATENT[1]} columns are V: v must be k[..., :{LATENT[1]}]"
    return None


def split_count(call: Call, processors: int) -> int:
    """Parts of the keys of a sequence."""
    tiles = call.batch * ceil_div(call.heads, ROWS)
    return latent_splits(tiles, ceil_div(call.seq_kv, KEYS), processors, MAX_SPLITS)


def flash3_latent(q, k, v, call: Call, table=None, lengths=None, added: int = 0, terms=None):
    """(out, lse) of one query a sequence over one latent a key, or with a table in pages."""
    if terms is not None or call.window is not None:
        raise ValueError("head_dim is 576, a latent has no mask or terms: q's one query must see every key")
    out = torch.empty((*q.shape[:3], LATENT[1]), dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    parts = out, lse
    if call.splits > 1:
        shapes = [(call.splits, *each.shape) for each in parts]
        parts = tuple(torch.empty(shape, dtype=torch.float32, device=q.device) for shape in shapes)
    tensors = q, k, *parts, *(() if table is None else (table, lengths))
    each = (q, q, k, *tensors[1:])  # both are described twice
    relaunched(call.memory, "flash3_latent", lambda: _launch(*tensors, call=call, added=added), each, None)
    if call.splits > 1:
        combine_splits(*parts, out, lse, call)
    return out, lse


def _launch(q, k, out, lse, table=None, lengths=None, *, call: Call, added: int = 0):
    """Start a block of threads for every part of 64 heads; returns what does so again."""
    from kernels.hopper.latent import latent_kernel

    paged = table is not None
    page = k.shape[1] if paged else KEYS
    parts = max(1, KEYS // page)
    strides = table.stride() if paged else (0, 0)
    arguments = {
        "batches": call.batch,
        "heads": call.heads,
        "keys": call.seq_kv,
        "splits": call.splits,
        "added": added,
        "row_stride": strides[0],
        "table_stride": strides[1],
        "page_size": page,
        "scale_log2": call.scale * math.log2(math.e),
        "PAGED": paged,
        "PARTS": parts,
        **HOW,
    }
    queries, latents = q.transpose(1, 2), k.transpose(1, 2) if paged else k
    wide = COLUMNS if parts > 1 else LATENT[1] // 2
    described = [
        *(_descriptor(queries, ROWS, columns) for columns in (LATENT[1], COLUMNS)),
        *(_descriptor(latents, KEYS // parts, columns) for columns in (wide, COLUMNS)),
    ]
    programs = call.batch * ceil_div(call.heads, ROWS) * call.splits
    tensors = (*described, out, lse, table, lengths)
    return started(latent_kernel, programs, tensors, compiled_for(arguments))
