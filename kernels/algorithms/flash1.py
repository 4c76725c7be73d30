"""FlashAttention (Dao et al., arXiv 2205.14135), Algorithm 1: key blocks outside, query blocks inside.

A block of K and V is loaded once; O, m and l live in memory and are read, rescaled and written at every
visit, O normalised each time. FlashAttention-2 saves that traffic by turning the loops around.
"""

import torch
import triton
import triton.language as tl

from kernels.algorithms.record import Algorithm
from kernels.call.call import Call
from kernels.call.terms import Terms, score_of, tensors_of, tile_of
from kernels.launch.block_times import BlockTimes, now, store_times
from kernels.launch.launch import launch, output_like
from kernels.tile.scores import capped, masked, query_blocks_in, seen_by, slope_of, sloped
from kernels.tile.tile import (
    LN_2,
    LOG2_E,
    added_of_seen,
    any_not_finite,
    head_start,
    load_tile,
    matmul,
    narrowed,
    normalised,
    online_softmax_update,
    softmax_step,
    store_probe,
    store_tile,
    widened,
)
from kernels.tilings.flash2 import warps


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window"])
def flash1_kernel(
    q, k, v, out, row_max, row_sum, probe, blocks, terms, strides,
    heads, kv_heads, seq_q, seq_kv, window, score, TILE: tl.constexpr,
):  # fmt: skip
    """One program a head. out, row_max (units of log2) and row_sum start as 0, -inf and 0, or as a sink."""
    began = now(blocks)
    q_strides, k_strides, v_strides, out_strides = strides
    sizes = (seq_q, seq_kv, window)
    scale_log2 = score[0]
    batch_head = tl.program_id(0)
    batch = batch_head // heads
    head = batch_head % heads
    kv_head = head // (heads // kv_heads)
    query_blocks = tl.cdiv(seq_q, TILE.BLOCK_Q)
    key_blocks = tl.cdiv(seq_kv, TILE.BLOCK_KV)
    columns = tl.arange(0, TILE.BLOCK_D)
    v_columns = tl.arange(0, TILE.BLOCK_V)
    q_head = head_start(q, q_strides, batch, head)
    k_head = head_start(k, k_strides, batch, kv_head)
    v_head = head_start(v, v_strides, batch, kv_head)
    out_head = head_start(out, out_strides, batch, head)
    max_head = row_max + batch_head.to(tl.int64) * seq_q
    sum_head = row_sum + batch_head.to(tl.int64) * seq_q

    for key_block in range(0, key_blocks):
        keys = key_block * TILE.BLOCK_KV + tl.arange(0, TILE.BLOCK_KV)
        k_tile = load_tile(k_head, k_strides, keys, columns, seq_kv, TILE.HEAD_DIM, True)
        v_tile = load_tile(v_head, v_strides, keys, v_columns, seq_kv, TILE.V_DIM, True)
        apart = None  # not False, which Triton would make a number of
        if TILE.RANGES:  # values that are not finite must not reach what only shares a tile
            apart = any_not_finite(v_tile)
        start, _full_start, _full_stop, stop = query_blocks_in(terms, batch, key_block, sizes, TILE)
        for query_block in range(start, stop):
            queries = query_block * TILE.BLOCK_Q + tl.arange(0, TILE.BLOCK_Q)
            valid = queries < seq_q
            running_max = tl.load(max_head + queries, mask=valid, other=float("-inf"))
            running_sum = tl.load(sum_head + queries, mask=valid, other=0.0)
            before = widened(load_tile(out_head, out_strides, queries, v_columns, seq_q, TILE.V_DIM, True))
            q_tile = load_tile(q_head, q_strides, queries, columns, seq_q, TILE.HEAD_DIM, True)

            products = matmul(q_tile, tl.trans(k_tile))
            if not TILE.RANGES:
                view = None
            else:
                view = seen_by(terms.ranges, batch, queries[:, None], seq_q)
                slope = None if terms.slopes is None else slope_of(terms.slopes, batch_head, scale_log2)
                products = sloped(capped(products, score[1], TILE.FINE), slope, view, keys[None, :])
            products = masked(products, queries[:, None], keys[None, :], sizes, view, TILE)
            if apart is not None and apart:
                sum_before = running_sum
                running_max, running_sum, alpha, weights = softmax_step(
                    products, running_max, running_sum, scale_log2
                )
                accumulator = added_of_seen(
                    before * (sum_before * alpha)[:, None], narrowed(weights, v_tile.dtype),
                    products != float("-inf"), (v_head, v_strides), keys, v_columns, seq_kv, TILE.V_DIM,
                )  # fmt: skip
            else:
                running_max, running_sum, accumulator, alpha = online_softmax_update(
                    products, v_tile, running_max, running_sum, before * running_sum[:, None], scale_log2
                )

            attended = normalised(accumulator, running_sum)
            store_tile(out_head, out_strides, queries, v_columns, seq_q, TILE.V_DIM, attended)
            tl.store(max_head + queries, running_max, mask=valid)
            tl.store(sum_head + queries, running_sum, mask=valid)
            if probe is not None:
                tile = (batch_head.to(tl.int64) * query_blocks + query_block) * key_blocks + key_block
                store_probe(probe, tile, valid, running_max, running_sum, alpha, TILE.BLOCK_Q)
        tl.debug_barrier()  # the next key block's threads read what these wrote
    store_times(blocks, began)


def flash1(
    q, k, v, call: Call, probe=None, times: BlockTimes | None = None, terms: Terms | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `Algorithm.forward`."""
    out = output_like(q, v).zero_()
    row_max = torch.full(q.shape[:3], -torch.inf, dtype=torch.float32, device=q.device)
    row_sum = torch.zeros_like(row_max)
    if terms is not None and terms.sinks is not None:
        row_max.copy_((terms.sinks * LOG2_E.value)[:, None])
        row_sum.fill_(1.0)
    programs = call.batch * call.heads
    blocks = times and times.room("attention", programs, q.device)
    launch(
        flash1_kernel,
        programs,
        call,
        (q, k, v, out, row_max, row_sum, probe, blocks, tensors_of(terms, call.seq_kv)),
        num_warps=warps(call.block_q, call.out_dim),
        strides=(q.stride(), k.stride(), v.stride(), out.stride()),
        score=score_of(call, terms),
        TILE=tile_of(call, terms),
        **call.sizes,
    )
    return out, row_max * LN_2.value + row_sum.log()


ALGORITHM = Algorithm(key="flash1", order=1, forward=flash1, probed=True, traced=True)
