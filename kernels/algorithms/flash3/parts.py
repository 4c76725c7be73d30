"""flash3 without a mask, where tiles do not fill the SMs.

Where half of these or more would have no tile, each takes a part of a tile's keys. Where the last round of
tiles does not fill them, its tiles are cut over their keys.
"""

import torch
import triton
import triton.language as tl

from kernels.algorithms.flash3.forward import (
    NO_NUMBERS,
    NO_TENSORS,
    TILING,
    _prepared,
    compiled_for,
    relaunched,
    started,
    zeroed_counter,
)
from kernels.algorithms.split_kv import combine_splits
from kernels.call.call import Call, Cut, ceil_div
from kernels.launch.launch import interpreted, multiprocessors
from kernels.launch.relaunch import Relaunch
from kernels.tile.tile import narrowed

FEWEST_SAVED = 16  # key blocks that an SM has less to visit: fewer did not pay for combining, on an H200
FEWEST_KEY_BLOCKS = 4  # of a part
HEAD_DIM, FEWEST_QUERIES = 128, 128  # for which, and from which on, it was measured against split_kv


def split_count(call: Call, processors: int) -> int | None:
    """Parts of the keys that keep more SMs at work without a mask; None where that does not pay."""
    if call.causal or call.scale <= 0 or call.head_dim != HEAD_DIM or call.seq_q < FEWEST_QUERIES:
        return None
    tiling = TILING[call.head_dim]
    tiles = call.batch * call.heads * ceil_div(call.seq_q, tiling["CONSUMERS"] * 64)
    key_blocks = ceil_div(call.seq_kv, tiling["BLOCK_KV"])
    splits = min(processors // tiles, key_blocks // FEWEST_KEY_BLOCKS)
    if splits < 2 or key_blocks - ceil_div(key_blocks, splits) < FEWEST_SAVED:
        return None
    return splits


def flash3_split(q, k, v, call: Call) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) as `kernels.algorithms.flash3.forward.flash3`, by call.splits parts of the keys."""
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    partial = torch.empty((call.splits, *q.shape), dtype=torch.float32, device=q.device)
    partial_lse = torch.empty((call.splits, *lse.shape), dtype=torch.float32, device=q.device)
    tensors = q, k, v, partial, partial_lse
    relaunched(call.memory, "flash3_split", lambda: _launch_split(*tensors, call), tensors)
    combine_splits(partial, partial_lse, out, lse, call)
    return out, lse


def _launch_split(q, k, v, partial, partial_lse, call: Call) -> Relaunch | None:
    """Start one block of threads for each part of a tile; returns what does so again."""
    from kernels.hopper.forward import attention_kernel

    tiles, descriptors, arguments = _prepared(q, k, v, q, False, None, call.scale)
    arguments |= {"parts": (call.splits, None, None), "TRACED": False}
    tensors = (*descriptors[:3], partial, None, None, partial_lse, zeroed_counter(q.device), None, None)
    programs = min(multiprocessors(q.device), tiles * call.splits)
    return started(attention_kernel, programs, tensors, compiled_for(arguments))


# by head dim, visits of key blocks that take as long as what cutting adds, about, on an H200; at 64 tiles are
# smaller, and less of the last round is idle
COST = {128: 8, 256: 14}
GAIN = 0.01  # of a call's time, from which on it is cut
MERGED = 1024  # numbers of O that a program merges
AT_ONCE = tl.constexpr(4)  # pieces that it reads at a time


def cut_of(call: Call, processors: int) -> Cut | None:
    """How a call's last tiles are cut; None where that does not pay, and where they are not equal."""
    if call.causal or call.scale <= 0 or call.head_dim not in COST:
        return None
    tiling = TILING[call.head_dim]
    block_q = 64 * tiling["CONSUMERS"]
    key_blocks = -(-call.seq_kv // tiling["BLOCK_KV"])
    tiles = call.batch * call.heads * -(-call.seq_q // block_q)
    rounds, left = divmod(tiles, processors)
    share = -(-left * key_blocks // processors)
    saved = key_blocks - share - COST[call.head_dim]
    if not rounds or not left or saved < GAIN * (rounds + 1) * key_blocks:
        return None
    return Cut(tiles - left, left, key_blocks, share, processors, block_q)


def flash3_cut(q, k, v, call: Call) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) as `kernels.algorithms.flash3.forward.flash3`, the last tiles by call.cut."""
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    room, tensors = call.cut.room(q), (q, k, v, out, lse)
    relaunched(call.memory, "flash3_cut", lambda: _launch_cut(*tensors, room, call), tensors, room)
    relaunched(call.memory, "merge", lambda: _merge(room, out, lse, call), (*room, out, lse), None)
    return out, lse


def _launch_cut(q, k, v, out, lse, room, call: Call) -> Relaunch | None:
    """Start a block of threads an SM; returns what does so again."""
    from kernels.hopper.forward import attention_kernel

    programs, descriptors, arguments = _prepared(q, k, v, out, False, None, call.scale)
    arguments |= {"parts": (None, call.cut.whole, call.cut.share), "TRACED": False}
    arguments |= {"OTHERS": True, "beyond": NO_NUMBERS}
    arguments["SKIPS"] &= TILING[call.head_dim]["BLOCK_KV"] < call.cut.block_q  # as measured
    tensors = (*descriptors, lse, zeroed_counter(q.device), None, (*room, *NO_TENSORS))
    return started(attention_kernel, programs, tensors, compiled_for(arguments))


def _merge(room, out, lse, call: Call) -> Relaunch | None:
    """Fill O and lse of the tiles that are cut; on a GPU its launch overlaps the end of the one before."""
    cut, head_dim = call.cut, call.head_dim
    arguments = {
        "out_strides": out.stride(),
        "heads": call.heads,
        "seq_q": call.seq_q,
        "query_blocks": ceil_div(call.seq_q, cut.block_q),
        "whole": cut.whole,
        "key_blocks": cut.key_blocks,
        "share": cut.share,
        "BLOCK_Q": cut.block_q,
        "ROWS": MERGED // head_dim,
        "HEAD_DIM": head_dim,
        "OVERLAPS": not interpreted(),
    }
    programs = cut.tiles * cut.block_q * head_dim // MERGED
    options = {} if interpreted() else {"launch_pdl": True}
    return started(merge_kernel, programs, (*room, out, lse), arguments, num_warps=2, **options)


@triton.jit(do_not_specialize=["heads", "seq_q", "query_blocks", "whole", "key_blocks", "share"])
def merge_kernel(
    partial, partial_lse, out, lse, out_strides, heads, seq_q, query_blocks, whole, key_blocks, share,
    BLOCK_Q: tl.constexpr, ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """One program ROWS rows of a cut tile, whose pieces follow one another: slot = tile + share."""
    if OVERLAPS:
        tl.extra.cuda.gdc_wait()
    tile = tl.program_id(0) // (BLOCK_Q // ROWS)
    tile_rows = tl.program_id(0) % (BLOCK_Q // ROWS) * ROWS + tl.arange(0, ROWS)
    first = tile * key_blocks // share
    pieces = ((tile + 1) * key_blocks - 1) // share - first + 1
    rows = (tile + first) * BLOCK_Q + tile_rows
    columns = tl.arange(0, HEAD_DIM)
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    merged = tl.zeros([ROWS, HEAD_DIM], tl.float32)
    for start in range(0, pieces, AT_ONCE):
        before = largest
        for each in tl.static_range(AT_ONCE):
            there = (start + each < pieces) & (rows >= 0)
            part = tl.load(partial_lse + each * BLOCK_Q + rows, there, other=float("-inf"))
            largest = tl.maximum(largest, part)
        total *= tl.exp(before - largest)
        merged *= tl.exp(before - largest)[:, None]
        for each in tl.static_range(AT_ONCE):
            there = (start + each < pieces) & (rows >= 0)
            part = tl.load(partial_lse + each * BLOCK_Q + rows, there, other=float("-inf"))
            places = (each * BLOCK_Q + rows)[:, None] * HEAD_DIM + columns[None, :]
            left = tl.load(partial + places, there[:, None], other=0.0)
            weights = tl.exp(part - largest)
            total += weights
            merged += weights[:, None] * left
        rows += AT_ONCE * BLOCK_Q
    number = whole + tile
    batch_head = number // query_blocks
    rows = number % query_blocks * BLOCK_Q + tile_rows
    batch, head = (batch_head // heads).to(tl.int64), (batch_head % heads).to(tl.int64)
    starts = batch * out_strides[0] + head * out_strides[1] + rows.to(tl.int64) * out_strides[2]
    inside = rows < seq_q
    merged = narrowed(merged / total[:, None], out.dtype.element_ty)
    tl.store(out + starts[:, None] + columns[None, :], merged, inside[:, None])
    tl.store(lse + batch_head.to(tl.int64) * seq_q + rows, largest + tl.log(total), inside)
