"""FlashAttention (Dao et al., arXiv 2205.14135), Algorithm 1: key blocks outside, query blocks inside.

A block of K and V is loaded once; O, m and l live in memory and are read, rescaled and written at every
visit, O normalised each time. FlashAttention-2 saves that traffic by turning the loops around.
"""

import torch
import triton
import triton.language as tl

from kernels.algorithms.record import Algorithm
from kernels.call.call import Call
from kernels.call.terms import Terms, mask_of, scales, tensors_of
from kernels.launch.block_times import BlockTimes, now, store_times
from kernels.launch.launch import launch, output_like, warps
from kernels.tile.scores import capped, masked, query_blocks_in, seen_by, slope_of, sloped
from kernels.tile.tile import (
    LN_2,
    LOG2_E,
    head_start,
    load_tile,
    matmul,
    normalised,
    online_softmax_update,
    query_blocks_of,
    store_probe,
    store_tile,
    widened,
)


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window"])
def flash1_kernel(
    q, k, v, out, row_max, row_sum, probe, blocks, ranges, seers, slopes,
    q_strides, k_strides, v_strides, out_strides,
    heads, kv_heads, seq_q, seq_kv, window, scale_log2, cap,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    V_DIM: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr,
    PROBE: tl.constexpr, TRACED: tl.constexpr,
):  # fmt: skip
    """One program a head. out, row_max (units of log2) and row_sum start as 0, -inf and 0, or as a sink."""
    began = now(TRACED)
    batch_head = tl.program_id(0)
    batch = batch_head // heads
    head = batch_head % heads
    kv_head = head // (heads // kv_heads)
    query_blocks = tl.cdiv(seq_q, BLOCK_Q)
    key_blocks = tl.cdiv(seq_kv, BLOCK_KV)
    columns = tl.arange(0, BLOCK_D)
    v_columns = tl.arange(0, BLOCK_V)
    q_head = head_start(q, q_strides, batch, head)
    k_head = head_start(k, k_strides, batch, kv_head)
    v_head = head_start(v, v_strides, batch, kv_head)
    out_head = head_start(out, out_strides, batch, head)
    max_head = row_max + batch_head.to(tl.int64) * seq_q
    sum_head = row_sum + batch_head.to(tl.int64) * seq_q

    for key_block in range(0, key_blocks):
        keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
        k_tile = load_tile(k_head, k_strides, keys, columns, seq_kv, HEAD_DIM, True)
        v_tile = load_tile(v_head, v_strides, keys, v_columns, seq_kv, V_DIM, True)
        if ranges is None:
            start, _full_start, _full_stop, stop = query_blocks_of(
                key_block, seq_q, seq_kv, window, CAUSAL, WINDOWED, BLOCK_Q, BLOCK_KV
            )
        else:
            start, _full_start, _full_stop, stop = query_blocks_in(
                seers, batch, key_block, seq_q, seq_kv, BLOCK_Q, BLOCK_KV
            )
        for query_block in range(start, stop):
            queries = query_block * BLOCK_Q + tl.arange(0, BLOCK_Q)
            valid = queries < seq_q
            running_max = tl.load(max_head + queries, mask=valid, other=float("-inf"))
            running_sum = tl.load(sum_head + queries, mask=valid, other=0.0)
            before = widened(load_tile(out_head, out_strides, queries, v_columns, seq_q, V_DIM, True))
            q_tile = load_tile(q_head, q_strides, queries, columns, seq_q, HEAD_DIM, True)

            products = matmul(q_tile, tl.trans(k_tile))
            if ranges is None:
                view = None
            else:
                view = seen_by(ranges, batch, queries[:, None], seq_q)
                slope = None if slopes is None else slope_of(slopes, batch_head, scale_log2)
                products = sloped(capped(products, cap), slope, view, keys[None, :])
            products = masked(
                products, queries[:, None], keys[None, :], seq_q, seq_kv, window, view, CAUSAL, WINDOWED
            )
            running_max, running_sum, accumulator, alpha = online_softmax_update(
                products, v_tile, running_max, running_sum, before * running_sum[:, None], scale_log2
            )

            attended = normalised(accumulator, running_sum)
            store_tile(out_head, out_strides, queries, v_columns, seq_q, V_DIM, attended)
            tl.store(max_head + queries, running_max, mask=valid)
            tl.store(sum_head + queries, running_sum, mask=valid)
            if PROBE:
                tile = (batch_head.to(tl.int64) * query_blocks + query_block) * key_blocks + key_block
                rows = tl.arange(0, BLOCK_Q)
                store_probe(probe, tile, rows, valid, running_max, running_sum, alpha, BLOCK_Q)
        tl.debug_barrier()  # the next key block's threads read what these wrote
    store_times(blocks, began, TRACED)


def flash1(
    q, k, v, call: Call, probe=None, times: BlockTimes | None = None, terms: Terms | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """O [batch, heads, seq_q, head_dim of v], and lse float32 [batch, heads, seq_q].

    probe: (m, l, alpha) to fill, see `kernels.Probed`; times: to write the blocks down, see
    `kernels.launch.block_times`; terms: what the call has beyond a plain mask.
    """
    out = output_like(q, v).zero_()
    row_max = torch.full(q.shape[:3], -torch.inf, device=q.device)
    row_sum = torch.zeros(q.shape[:3], device=q.device)
    ranges, sinks, slopes = tensors_of(terms)
    seers = None if ranges is None else terms.seers(call.seq_kv)
    if sinks is not None:
        row_max.copy_((sinks * LOG2_E.value)[:, None])
        row_sum.fill_(1.0)
    programs = call.batch * call.heads
    blocks = times and times.room("attention", programs, q.device)
    launch(
        flash1_kernel,
        programs,
        call,
        (q, k, v, out, row_max, row_sum, probe, blocks, ranges, seers, slopes),
        num_warps=warps(call.block_q, call.out_dim),
        num_stages=1,
        q_strides=q.stride(),
        k_strides=k.stride(),
        v_strides=v.stride(),
        out_strides=out.stride(),
        **scales(call, terms),
        PROBE=probe is not None,
        TRACED=times is not None,
        **call.both_sizes,
        **mask_of(call, terms),
    )
    return out, row_max * LN_2.value + row_sum.log()


ALGORITHM = Algorithm(key="flash1", order=1, forward=flash1, probed=True, traced=True)
