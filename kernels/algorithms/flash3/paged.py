"""flash3 over keys in pages: which chunks of queries it serves, and its launch."""

import math

import torch

from kernels.algorithms.flash3 import ALGORITHM
from kernels.algorithms.flash3.forward import (
    ANYWHERE,
    TILING,
    _descriptor,
    compiled_for,
    relaunched,
    started,
    zeroed_counter,
)
from kernels.algorithms.flash3.latent import SMALLEST_PAGE
from kernels.algorithms.record import PLAIN
from kernels.call.call import Call, ceil_div
from kernels.launch.launch import multiprocessors
from kernels.tilings.flash3 import heads_together

_FOLLOWING = {"CONSUMER_REGISTERS": 232, "PRODUCER_REGISTERS": 40}  # the producer holds a block's pages too
PAGED_TILING = {64: TILING[64], **{head_dim: TILING[head_dim] | _FOLLOWING for head_dim in (128, 256)}}
MANY_PAGES = 8  # of a block of keys: from there on one warp copies K and another V; measured on an H200
REST = {64: 20, 128: 20, 256: 0}  # ns after each page, twice with half of them; measured there, but for 256
PAIRED = (64,)  # head dims at which P is rounded in pairs where causal, as in `forward`
FEWEST_QUERIES = 128  # of a head: below, the rows of heads that share keys fill a block together
FEWEST_TILES = 2 / 3  # for each SM: below, splits of the keys keep more of them at work; measured on an H200


def serves(q, k_cache, v_cache, call: Call) -> bool:
    """Whether these, causal or without a mask, are served and make tiles enough: no keys are split."""
    heads_first = [cache.transpose(1, 2) for cache in (k_cache, v_cache)]
    if call.seq_q < FEWEST_QUERIES or call.scale <= 0 or call.head_dim not in PAGED_TILING or call.v_dim:
        return False
    if ALGORITHM.unserved(q, *heads_first, PLAIN, interpreted=False):
        return False
    page, block = k_cache.shape[1], PAGED_TILING[call.head_dim]["BLOCK_KV"]
    whole = page % block == 0 or (block % page == 0 and page >= SMALLEST_PAGE)
    tiles = call.batch * call.heads * _query_blocks(call)
    return whole and tiles >= FEWEST_TILES * multiprocessors(q.device)


def _query_blocks(call: Call) -> int:
    """Tiles of a head."""
    from kernels.hopper.warp_group import ROWS

    return ceil_div(call.seq_q, ROWS.value * PAGED_TILING[call.head_dim]["CONSUMERS"])


def flash3_pages(q, k_cache, v_cache, block_table, lengths, call: Call, added: int):
    """(out, lse) of queries over lengths + added keys in pages, as `kernels.attention_paged` takes them."""
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    tensors, where = (q, k_cache, v_cache, out, lse), (block_table, lengths)
    relaunched(call.memory, "flash3_pages", lambda: _launch(*tensors, *where, call, added), tensors, where)
    return out, lse


def _launch(q, k_cache, v_cache, out, lse, block_table, lengths, call: Call, added: int):
    """Start one block of threads an SM, or one a tile if there are fewer; returns what does so again."""
    from kernels.hopper.pages import COLUMNS, paged_attention_kernel
    from kernels.hopper.warp_group import ROWS

    tiling = PAGED_TILING[call.head_dim]
    page, block = k_cache.shape[1], tiling["BLOCK_KV"]
    parts = max(1, block // page)
    producers = 2 if parts >= MANY_PAGES else 1
    group = call.heads // call.kv_heads
    bytes_of_keys = 2 * call.seq_kv * call.head_dim * q.element_size()
    arguments = {
        "batch_heads": call.batch * call.heads,
        "heads_per_kv_head": group,
        "heads_together": heads_together(call.batch * call.kv_heads, group, bytes_of_keys),
        "query_blocks": _query_blocks(call),
        "capacity": call.seq_kv,
        "added": added,
        "row_stride": block_table.stride(0),
        "table_stride": block_table.stride(1),
        "page_size": page,
        "scale_log2": call.scale * math.log2(math.e),
        **ANYWHERE,
        "COLUMNS": call.head_dim,
        "V_COLUMNS": call.head_dim,
        "CAUSAL": call.causal,
        "ALIGNED": not call.causal,
        "PAIRED": call.causal and call.head_dim in PAIRED,
        "PARTS": parts,
        "PRODUCERS": producers,
        "REST": REST[call.head_dim] * producers if parts > 1 else 0,
        **tiling,
    }
    columns = COLUMNS.value if parts > 1 else None
    pools = [_descriptor(cache.transpose(1, 2), block // parts, columns) for cache in (k_cache, v_cache)]
    ends = [_descriptor(tensor, ROWS.value) for tensor in (q, out)]
    tensors = (ends[0], *pools, ends[1], lse, zeroed_counter(q.device), block_table, lengths)
    programs = min(multiprocessors(q.device), call.batch * call.heads * _query_blocks(call))
    return started(paged_attention_kernel, programs, tensors, compiled_for(arguments))
