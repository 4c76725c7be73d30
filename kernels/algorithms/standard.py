"""Unfused attention: S = scale q k^T, P = softmax(S) and O = P v, three kernels, with S and P whole in
memory.

S and P take as many bits as the tensors; S of 16 bits is float16, which has more digits than bfloat16, and a
64th of the scores, so that none below four million is infinite. Every tile is computed, the masked ones too:
that is what unfused attention does. The softmax holds a row at once, so a row may have at most MAX_ROW keys.
"""

import torch
import triton
import triton.language as tl

from kernels.algorithms.record import Algorithm
from kernels.call.call import Call, ceil_div
from kernels.call.terms import Terms, score_of, tensors_of, tile_of
from kernels.launch.block_times import BlockTimes, now, store_times
from kernels.launch.launch import interpreted, launch, output_like, stages
from kernels.tile.scores import capped, seen_by, slope_of, sloped
from kernels.tile.tile import (
    LN_2,
    LOG2_E,
    added_of_seen,
    any_not_finite,
    head_start,
    load_tile,
    log_sum_exp,
    matmul,
    narrowed,
    normalised,
    store_tile,
    tile_pointers,
    visible,
    widened,
)
from kernels.tilings.flash2 import warps
from kernels.tilings.standard import SOFTMAX_TILE

MAX_ROW = 65536  # keys of a row: in float32 they fill an SM's registers
SHRUNK = tl.constexpr(1 / 64)  # of scores in float16
LARGEST = tl.constexpr(65504.0)  # of float16
INTERPRETED_SOFTMAX_TILE = 65536  # the interpreter takes about as long for any size


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "window"])  # seq_kv aligns the rows of S
def scores_kernel(
    q, k, scores, blocks, terms, strides, heads, kv_heads, seq_q, seq_kv, window, score, TILE: tl.constexpr
):
    """One program a tile of S: scaled products, -inf where masked; score is (scale, cap)."""
    began = now(blocks)
    q_strides, k_strides, score_strides = strides
    key_blocks = tl.cdiv(seq_kv, TILE.BLOCK_KV)
    query_blocks = tl.cdiv(seq_q, TILE.BLOCK_Q)
    key_block = tl.program_id(0) % key_blocks
    query_block = tl.program_id(0) // key_blocks % query_blocks
    batch_head = tl.program_id(0) // key_blocks // query_blocks
    batch = batch_head // heads
    head = batch_head % heads
    kv_head = head // (heads // kv_heads)
    queries = query_block * TILE.BLOCK_Q + tl.arange(0, TILE.BLOCK_Q)
    keys = key_block * TILE.BLOCK_KV + tl.arange(0, TILE.BLOCK_KV)
    columns = tl.arange(0, TILE.BLOCK_D)
    q_tile = load_tile(
        head_start(q, q_strides, batch, head), q_strides, queries, columns, seq_q, TILE.HEAD_DIM, True
    )
    k_tile = load_tile(
        head_start(k, k_strides, batch, kv_head), k_strides, keys, columns, seq_kv, TILE.HEAD_DIM, True
    )
    if not TILE.RANGES:
        seen = visible(queries[:, None], keys[None, :], (seq_q, seq_kv, window), TILE)
        products = matmul(q_tile, tl.trans(k_tile))
    else:
        view = seen_by(terms.ranges, batch, queries[:, None], seq_q)
        slope = None if terms.slopes is None else slope_of(terms.slopes, batch_head, score[0] * LOG2_E)
        seen = (keys[None, :] >= view[0]) & (keys[None, :] < view[1])
        products = capped(matmul(q_tile, tl.trans(k_tile)), score[1], TILE.FINE)
        products = sloped(products, slope, view, keys[None, :])
    tile = products * score[0]
    if scores.dtype.element_ty == tl.float16:
        tile = tl.minimum(tl.maximum(tile * SHRUNK, -LARGEST), LARGEST)
    tile = tl.where(seen, tile, float("-inf"))
    head_scores = head_start(scores, score_strides, batch, head)
    store_tile(head_scores, score_strides, queries, keys, seq_q, seq_kv, tile)
    store_times(blocks, began)


@triton.jit(do_not_specialize=["row_count", "seq_q"])
def softmax_kernel(
    scores, weights, lse, probe, blocks, sinks, row_count, seq_q, seq_kv,
    ROWS: tl.constexpr, BLOCK_ROW: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    """One program ROWS rows of S, held whole; a row that sees no key gets weights 0 and lse -inf."""
    began = now(blocks)
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    keys = tl.arange(0, BLOCK_ROW)
    places = rows[:, None] * seq_kv + keys[None, :]
    inside = (rows[:, None] < row_count) & (keys[None, :] < seq_kv)
    row_scores = widened(tl.load(scores + places, mask=inside, other=float("-inf"))) * LOG2_E
    if scores.dtype.element_ty == tl.float16:
        row_scores /= SHRUNK
    row_max = tl.max(row_scores, 1)
    if sinks is not None:
        sink = tl.load(sinks + rows, mask=rows < row_count, other=float("-inf")) * LOG2_E
        row_max = tl.maximum(row_max, sink)
    exponentials = tl.exp2(row_scores - tl.where(row_max == float("-inf"), 0.0, row_max)[:, None])
    row_sum = tl.sum(exponentials, 1)
    if sinks is not None:
        row_sum += tl.exp2(sink - tl.where(row_max == float("-inf"), 0.0, row_max))
    row_weights = normalised(exponentials, row_sum)
    tl.store(weights + places, narrowed(row_weights, weights.dtype.element_ty), mask=inside)
    tl.store(lse + rows, log_sum_exp(row_max, row_sum), mask=rows < row_count)
    if probe is not None:  # there every head is padded to whole query blocks
        padded = rows // seq_q * (tl.cdiv(seq_q, BLOCK_Q) * BLOCK_Q) + rows % seq_q
        tl.store(probe[0] + padded, row_max * LN_2, mask=rows < row_count)
        tl.store(probe[1] + padded, row_sum, mask=rows < row_count)
    store_times(blocks, began)


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "window"])
def output_kernel(
    weights, v, out, blocks, terms, strides, heads, kv_heads, seq_q, seq_kv, window, TILE: tl.constexpr
):
    """One program a query block of a head: O = P v over all key blocks."""
    began = now(blocks)
    weight_strides, v_strides, out_strides = strides
    query_blocks = tl.cdiv(seq_q, TILE.BLOCK_Q)
    query_block = tl.program_id(0) % query_blocks
    batch_head = tl.program_id(0) // query_blocks
    batch = batch_head // heads
    head = batch_head % heads
    kv_head = head // (heads // kv_heads)
    queries = query_block * TILE.BLOCK_Q + tl.arange(0, TILE.BLOCK_Q)
    columns = tl.arange(0, TILE.BLOCK_V)
    weight_head = head_start(weights, weight_strides, batch, head)
    v_head = head_start(v, v_strides, batch, kv_head)
    accumulator = tl.full([TILE.BLOCK_Q, TILE.BLOCK_V], 0.0, tl.float32)
    for key_block in range(0, tl.cdiv(seq_kv, TILE.BLOCK_KV)):
        keys = key_block * TILE.BLOCK_KV + tl.arange(0, TILE.BLOCK_KV)
        inside = (queries[:, None] < seq_q) & (keys[None, :] < seq_kv)
        weight_tile = tl.load(
            tile_pointers(weight_head, weight_strides, queries, keys), mask=inside, other=0.0
        )
        v_tile = load_tile(v_head, v_strides, keys, columns, seq_kv, TILE.V_DIM, True)
        if TILE.RANGES:  # values that are not finite must not reach what only shares a tile
            if any_not_finite(v_tile):
                first, end, _ = seen_by(terms.ranges, batch, queries[:, None], seq_q)
                seen = (keys[None, :] >= first) & (keys[None, :] < end)
                accumulator = added_of_seen(
                    accumulator, weight_tile, seen, (v_head, v_strides), keys, columns, seq_kv, TILE.V_DIM
                )
            else:
                accumulator += matmul(weight_tile, v_tile)
        else:
            accumulator += matmul(weight_tile, v_tile)
    store_tile(
        head_start(out, out_strides, batch, head),
        out_strides,
        queries,
        columns,
        seq_q,
        TILE.V_DIM,
        accumulator,
    )
    store_times(blocks, began)


def standard(
    q, k, v, call: Call, probe=None, times: BlockTimes | None = None, terms: Terms | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `Algorithm.forward`; the probe's alpha stays as it is."""
    weights = torch.empty((*q.shape[:3], call.seq_kv), dtype=q.dtype, device=q.device)
    scores = torch.empty_like(weights, dtype=torch.float16 if q.itemsize == 2 else q.dtype)
    _scores(q, k, scores, call, times, terms)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    _softmax(scores, weights, lse, call, probe, times, terms)
    del scores
    out = output_like(q, v)
    _output(weights, v, out, call, times, terms)
    return out, lse


def _scores(q, k, scores, call: Call, times: BlockTimes | None, terms: Terms | None) -> None:
    programs = call.key_blocks * call.query_blocks * call.batch * call.heads
    _, cap = score_of(call, terms)
    launch(
        scores_kernel,
        programs,
        call,
        (q, k, scores, times and times.room("scores", programs, q.device), tensors_of(terms)),
        num_warps=warps(call.block_q),
        strides=(q.stride(), k.stride(), scores.stride()),
        score=(call.scale if terms is None or terms.softcap is None else terms.softcap, cap),
        TILE=tile_of(call, terms),
        **call.sizes,
    )


def _softmax(scores, weights, lse, call: Call, probe, times, terms: Terms | None) -> None:
    block_row = triton.next_power_of_2(call.seq_kv)
    rows = max(1, (INTERPRETED_SOFTMAX_TILE if interpreted() else SOFTMAX_TILE) // block_row)
    row_count = call.batch * call.heads * call.seq_q
    programs = ceil_div(row_count, rows)
    sinks = None if terms is None or terms.sinks is None else terms.sinks[:, None].expand_as(lse).contiguous()
    launch(
        softmax_kernel,
        programs,
        call,
        (scores, weights, lse, probe, times and times.room("softmax", programs, lse.device), sinks),
        num_warps=min(32, max(4, block_row // 1024)),
        row_count=row_count,
        seq_q=call.seq_q,
        seq_kv=call.seq_kv,
        ROWS=rows,
        BLOCK_ROW=block_row,
        BLOCK_Q=call.block_q,
    )


def _output(weights, v, out, call: Call, times: BlockTimes | None, terms: Terms | None) -> None:
    programs = call.query_blocks * call.batch * call.heads
    launch(
        output_kernel,
        programs,
        call,
        (weights, v, out, times and times.room("output", programs, v.device), tensors_of(terms)),
        num_warps=warps(call.block_q, call.out_dim),
        num_stages=stages(v, streamed=call.block_kv * call.padded_out_dim, resident=0),
        strides=(weights.stride(), v.stride(), out.stride()),
        TILE=call.unmasked_tile if terms is None else call.tile_in_ranges,
        **call.sizes,
    )


ALGORITHM = Algorithm(
    key="standard",
    order=0,
    forward=standard,
    most_keys=(MAX_ROW, "holds a row of S whole"),
    probed=True,
    traced=True,
    whole_rows=True,
)
