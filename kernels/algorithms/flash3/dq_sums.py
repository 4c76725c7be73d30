"""The gradients that flash3's backward pass leaves as float32 sums, rounded and in their places."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernels.backward import places as packed
from kernels.backward import shared_key_blocks as shares
from kernels.backward.shared_key_blocks import NONE, Shares
from kernels.call.call import Call
from kernels.launch.launch import launch
from kernels.launch.relaunch import Relaunch
from kernels.tile.tile import head_start, store_tile
from kernels.tilings.flash3 import padded

SIDE = 64  # rows and columns of a part of a gradient, whose sums lie side by side
COLUMNS = 16  # of those that a program adds up over shares
OF_QUERIES = tl.constexpr(packed.OF_QUERIES)
AT_ONCE = tl.constexpr(8)  # shares whose sums are on their way


class SumsTile(NamedTuple):
    """What the kernel is compiled for."""

    HEAD_DIM: int  # of the sums; of the gradients WIDTH columns
    WIDTH: int
    BLOCK_Q: int
    BLOCK_KV: int
    SIDE: int
    COLUMNS: int


key_block_at = triton.jit(shares.key_block_at)


@triton.jit
def _store(tile, gradient, strides, batch, head, rows, columns, seq, HEAD_DIM: tl.constexpr):
    """Some columns of a part of a gradient, from its numbers in the order of `held` in `kernels.hopper`."""
    ROWS: tl.constexpr = rows.shape[0]
    COLUMNS: tl.constexpr = columns.shape[0]
    tile = tl.reshape(tile, [COLUMNS // 8, ROWS // 16, 8, 4, 2, 2])
    tile = tl.reshape(tl.trans(tile, 1, 4, 2, 0, 3, 5), [ROWS, COLUMNS])
    store_tile(head_start(gradient, strides, batch, head), strides, rows, columns, seq, HEAD_DIM, tile)


@triton.jit
def _store_keys(
    program, sums, d_keys, strides, batch_heads, kv_heads, heads_together, seq_kv, cut, shares,
    TILE: tl.constexpr,
):  # fmt: skip
    """Some columns of dK or dV of SIDE keys: the sum over the shares of their key block, in their order."""
    HEAD_DIM: tl.constexpr = TILE.HEAD_DIM
    BLOCK_KV: tl.constexpr = TILE.BLOCK_KV
    SIDE: tl.constexpr = TILE.SIDE
    COLUMNS: tl.constexpr = TILE.COLUMNS
    whole, coarse, coarse_shares, fine_shares = cut
    SIZE: tl.constexpr = 2 * BLOCK_KV * HEAD_DIM  # of a share's sums, which lie before those of dQ
    PARTS: tl.constexpr = SIZE // (SIDE * COLUMNS)
    block = program // PARTS
    part = program % PARTS
    first, count = block * coarse_shares, coarse_shares
    if first >= coarse:
        first, count = coarse + (block - coarse // coarse_shares) * fine_shares, fine_shares
    places = tl.arange(0, SIDE * COLUMNS)
    share_sums = sums + (first - shares).to(tl.int64) * SIZE + part * SIDE * COLUMNS + places
    tile = tl.zeros([SIDE * COLUMNS], tl.float32)
    for share in range(0, count, AT_ONCE):
        for each in tl.static_range(AT_ONCE):
            there = (places >= 0) & (share + each < count)
            tile += tl.load(share_sums, mask=there, other=0.0)
            share_sums += SIZE
    key_blocks = tl.cdiv(seq_kv, BLOCK_KV)
    batch_head, key_block = key_block_at(whole + block, batch_heads, heads_together, key_blocks)
    batch, head = batch_head // kv_heads, batch_head % kv_heads
    part = part % (PARTS // 2)
    rows = key_block * BLOCK_KV + part // (HEAD_DIM // COLUMNS) * SIDE + tl.arange(0, SIDE)
    columns = part % (HEAD_DIM // COLUMNS) * COLUMNS + tl.arange(0, COLUMNS)
    if program % PARTS < PARTS // 2:
        _store(tile, d_keys[0], strides[1], batch, head, rows, columns, seq_kv, TILE.WIDTH)
    else:
        _store(tile, d_keys[1], strides[2], batch, head, rows, columns, seq_kv, TILE.WIDTH)


@triton.jit
def _store_queries(
    program, sums, d_q, d_q_strides, heads, seq_q, query_blocks, scale, places,
    HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr, BLOCK_Q: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """A part of dQ: scale times its sums."""
    PARTS: tl.constexpr = BLOCK_Q * HEAD_DIM // SIDE // SIDE
    batch_head = program // (PARTS * query_blocks)
    block = program // PARTS % query_blocks
    part = program % PARTS * SIDE
    first, end = block * BLOCK_Q, seq_q
    if places is not None:
        first, end = tl.load(places + block * OF_QUERIES), tl.load(places + block * OF_QUERIES + 1)
    rows = first + tl.arange(0, SIDE)
    columns = tl.arange(0, SIDE)
    if BLOCK_Q > SIDE:
        rows += part
    else:
        columns += part
    tile = tl.load(sums + program.to(tl.int64) * SIDE * SIDE + tl.arange(0, SIDE * SIDE)) * scale
    batch, head = batch_head // heads, batch_head % heads
    _store(tile, d_q, d_q_strides, batch, head, rows, columns, end, WIDTH)


@triton.jit(
    do_not_specialize=[
        *("heads", "seq_q", "query_blocks", "batch_heads", "kv_heads", "heads_together", "seq_kv"),
        *("whole", "coarse", "coarse_shares", "fine_shares", "shares", "programs_of_keys"),
    ]
)
def query_sums_kernel(
    sums, gradients, places, strides, heads, seq_q, query_blocks, scale,
    batch_heads, kv_heads, heads_together, seq_kv, whole, coarse, coarse_shares, fine_shares,
    shares, programs_of_keys, TILE: tl.constexpr,
):  # fmt: skip
    """One program a SIDE x SIDE part of dQ, after those for dK and dV of shared key blocks."""
    if gradients[1] is not None and tl.program_id(0) < programs_of_keys:
        _store_keys(
            tl.program_id(0), sums, (gradients[1], gradients[2]), strides, batch_heads, kv_heads,
            heads_together, seq_kv, (whole, coarse, coarse_shares, fine_shares), shares, TILE,
        )  # fmt: skip
        return
    program = tl.num_programs(0) - 1 - tl.program_id(0)  # the last sums may still be in the L2
    _store_queries(
        program, sums, gradients[0], strides[0], heads, seq_q, query_blocks, scale, places,
        TILE.HEAD_DIM, TILE.WIDTH, TILE.BLOCK_Q, TILE.SIDE,
    )  # fmt: skip


def store_sums(
    d_qkv: tuple, sums: torch.Tensor, call: Call, cut: Shares | None, heads_together: int, places=None
) -> Relaunch | None:
    """dQ from its sums, and dK and dV of key blocks that are shared; returns what does so again."""
    d_q, d_k, d_v = d_qkv
    head_dim = padded(call.head_dim)
    programs_of_keys = 2 * cut.key_blocks * call.block_kv * head_dim // (SIDE * COLUMNS) if cut else 0
    return launch(
        query_sums_kernel,
        programs_of_keys + sums.numel() // SIDE**2,
        call,
        (sums, (d_q, d_k, d_v) if cut else (d_q, None, None), places),
        strides=(d_q.stride(), d_k.stride(), d_v.stride()),
        heads=call.heads,
        seq_q=call.seq_q,
        query_blocks=sums.numel() // (call.batch * call.heads * call.block_q * head_dim),
        scale=call.scale,
        batch_heads=call.batch * call.kv_heads,
        kv_heads=call.kv_heads,
        heads_together=heads_together,
        seq_kv=call.seq_kv,
        **(cut or NONE).arguments(),
        shares=(cut or NONE).count,
        programs_of_keys=programs_of_keys,
        TILE=SumsTile(head_dim, call.head_dim, call.block_q, call.block_kv, SIDE, COLUMNS),
    )
