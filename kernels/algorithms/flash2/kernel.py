"""The kernel of FlashAttention-2 (Dao, arXiv 2307.08691): query blocks outside, key blocks inside."""

import triton
import triton.language as tl

from kernels.launch.block_times import now, store_times
from kernels.tile.scores import capped, key_blocks_in, masked, seen_by, sink_of, slope_of, sloped
from kernels.tile.tile import (
    head_start,
    inlined,
    key_blocks_of,
    load_parts,
    load_tile,
    log_sum_exp,
    normalised,
    online_softmax_update,
    products_of,
    store_probe,
    store_tile,
)


@inlined
def load_keys(
    head, place, key_block, columns, seq_kv,
    HEAD_DIM: tl.constexpr, BLOCK_KV: tl.constexpr, RAGGED: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """A block of a head of K or V, zero past its end; head and place are its pointer and strides.

    With TMA they are a descriptor of blocks [1, 1, BLOCK_KV, columns] and (batch, head); of 192 columns there
    are three, for a tile of Triton has 128 or 256.
    """
    if TMA and HEAD_DIM == 192:
        first = head.load([place[0], place[1], key_block * BLOCK_KV, 0]).reshape(BLOCK_KV, 64)
        second = head.load([place[0], place[1], key_block * BLOCK_KV, 64]).reshape(BLOCK_KV, 64)
        third = head.load([place[0], place[1], key_block * BLOCK_KV, 128]).reshape(BLOCK_KV, 64)
        return first, second, third
    elif TMA:
        return head.load([place[0], place[1], key_block * BLOCK_KV, 0]).reshape(BLOCK_KV, columns.shape[0])
    else:
        keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
        return load_tile(head, place, keys, columns, seq_kv, HEAD_DIM, RAGGED)


@inlined
def attend(
    q, k_head, v_head, k_place, v_place, running_max, running_sum, accumulator,
    start, stop, whole_start, whole_stop, queries, columns, v_columns, seq_q, seq_kv, window, scale_log2,
    view, slope, cap, probe, probe_tile,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, V_DIM: tl.constexpr,
    BLOCK_KV: tl.constexpr, MASK: tl.constexpr, RAGGED: tl.constexpr, PROBE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Take key blocks start to stop - 1 into a query block's softmax.

    MASK: "none" of them has hidden keys, "all" are looked at for some, or the "edges", all but whole_start to
    whole_stop - 1. RAGGED where the last block may reach past the last key.
    """
    for key_block in range(start, stop):
        keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
        k = load_keys(k_head, k_place, key_block, columns, seq_kv, HEAD_DIM, BLOCK_KV, RAGGED, TMA)
        v = load_keys(v_head, v_place, key_block, v_columns, seq_kv, V_DIM, BLOCK_KV, RAGGED, TMA)
        products = products_of(q, k, 3 if TMA and HEAD_DIM == 192 else 1)
        if view is not None:
            products = sloped(capped(products, cap), slope, view, keys[None, :])
        if MASK == "all":
            products = masked(
                products, queries[:, None], keys[None, :], seq_q, seq_kv, window, view, CAUSAL, WINDOWED
            )
        elif MASK == "edges":  # noqa: SIM102 (known when compiling, what follows is not)
            if (key_block < whole_start) | (key_block >= whole_stop):
                products = masked(
                    products, queries[:, None], keys[None, :], seq_q, seq_kv, window, view, CAUSAL, WINDOWED
                )
        running_max, running_sum, accumulator, alpha = online_softmax_update(
            products, v, running_max, running_sum, accumulator, scale_log2
        )
        if PROBE:
            rows = tl.arange(0, queries.shape[0])
            store_probe(
                probe, probe_tile + key_block, rows, queries < seq_q,
                running_max, running_sum, alpha, queries.shape[0],
            )  # fmt: skip
    return running_max, running_sum, accumulator


@inlined
def attend_apart(
    q, k_head, v_head, k_place, v_place, running_max, running_sum, accumulator,
    start, stop, whole_start, whole_stop, queries, columns, v_columns, seq_q, seq_kv, window, scale_log2,
    view, slope, cap, probe, probe_tile,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, V_DIM: tl.constexpr,
    BLOCK_KV: tl.constexpr, MASK: tl.constexpr, PROBE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """`attend` in up to three loops: the window's far edge, the whole blocks, the diagonal or ragged end."""
    if WINDOWED or view is not None:
        running_max, running_sum, accumulator = attend(
            q, k_head, v_head, k_place, v_place, running_max, running_sum, accumulator,
            start, whole_start, 0, 0, queries, columns, v_columns, seq_q, seq_kv, window, scale_log2,
            view, slope, cap, probe, probe_tile,
            CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_KV, "all", True, PROBE, TMA,
        )  # fmt: skip
    running_max, running_sum, accumulator = attend(
        q, k_head, v_head, k_place, v_place, running_max, running_sum, accumulator,
        whole_start, whole_stop, 0, 0, queries, columns, v_columns, seq_q, seq_kv, window, scale_log2,
            view, slope, cap, probe, probe_tile,
        CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_KV, "none", False, PROBE, TMA,
    )  # fmt: skip
    if MASK != "none":
        running_max, running_sum, accumulator = attend(
            q, k_head, v_head, k_place, v_place, running_max, running_sum, accumulator,
            whole_stop, stop, 0, 0, queries, columns, v_columns, seq_q, seq_kv, window, scale_log2,
            view, slope, cap, probe, probe_tile,
            CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_KV, "all", True, PROBE, TMA,
        )  # fmt: skip
    return running_max, running_sum, accumulator


@inlined
def place(query_blocks, HEAVY_FIRST: tl.constexpr, TOGETHER: tl.constexpr):
    """(query block, batch and head) of this program, head by head.

    HEAVY_FIRST: where causal, the last query blocks see most keys, and TOGETHER heads start with theirs.
    """
    program = tl.program_id(0)
    if not HEAVY_FIRST:
        return program % query_blocks, program // query_blocks
    elif TOGETHER == 1:
        return query_blocks - 1 - program % query_blocks, program // query_blocks
    else:
        first = program // (TOGETHER * query_blocks) * TOGETHER
        heads = tl.minimum(TOGETHER, tl.num_programs(0) // query_blocks - first)
        in_set = program - first * query_blocks
        return query_blocks - 1 - in_set // heads, first + in_set % heads


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window"])
def flash2_kernel(
    q, k, v, out, lse, probe, blocks, ranges, sinks, slopes, q_strides, k_strides, v_strides, out_strides,
    heads, kv_heads, seq_q, seq_kv, window, scale_log2, cap,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    V_DIM: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr,
    EVEN: tl.constexpr, PROBE: tl.constexpr, TMA: tl.constexpr, HEAVY_FIRST: tl.constexpr,
    TOGETHER: tl.constexpr, TRACED: tl.constexpr,
):  # fmt: skip
    """One program a query block of a head; lse [batch, heads, seq_q] is contiguous.

    ranges, sinks [heads] and slopes [batch, heads], float32, and cap are None where the plain mask is all.
    """
    MASK: tl.constexpr = "edges" if CAUSAL or not EVEN or ranges is not None else "none"
    began = now(TRACED)
    query_blocks = tl.cdiv(seq_q, BLOCK_Q)
    key_blocks = tl.cdiv(seq_kv, BLOCK_KV)
    query_block, batch_head = place(query_blocks, HEAVY_FIRST, TOGETHER)
    batch = batch_head // heads
    head = batch_head % heads
    kv_head = head // (heads // kv_heads)

    queries = query_block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns, v_columns = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_V)
    if TMA:
        k_head, v_head, k_place, v_place = k, v, (batch, kv_head), (batch, kv_head)
    else:
        k_head = head_start(k, k_strides, batch, kv_head)
        v_head = head_start(v, v_strides, batch, kv_head)
        k_place, v_place = k_strides, v_strides
    probe_tile = (batch_head.to(tl.int64) * query_blocks + query_block) * key_blocks
    q_head = head_start(q, q_strides, batch, head)
    if TMA:
        q_tile = load_parts(q_head, q_strides, queries, columns, seq_q, HEAD_DIM, True)
    else:
        q_tile = load_tile(q_head, q_strides, queries, columns, seq_q, HEAD_DIM, True)
    if TMA and MASK == "none" and HEAD_DIM == 128 and BLOCK_Q == 128:
        # what was loaded goes to shared memory, what was computed stays in registers, and Q K^T reads K alone
        q_tile = tl.where(queries[:, None] < seq_q, q_tile, 0.0)
    running_max = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    running_sum = tl.zeros([BLOCK_Q], tl.float32)
    if sinks is not None:
        running_max, running_sum = sink_of(sinks, head, queries >= 0)
    accumulator = tl.zeros([BLOCK_Q, BLOCK_V], tl.float32)

    first = query_block * BLOCK_Q
    last = tl.minimum(first + BLOCK_Q, seq_q) - 1
    if ranges is None:
        view = None
        slope = None
        start, full_start, full_stop, stop = key_blocks_of(
            first, last, seq_q, seq_kv, window, CAUSAL, WINDOWED, BLOCK_KV
        )
    else:
        view = seen_by(ranges, batch, queries[:, None], seq_q)
        slope = None if slopes is None else slope_of(slopes, batch_head, scale_log2)
        start, full_start, full_stop, stop = key_blocks_in(ranges, batch, first, last, seq_q, BLOCK_KV)
    if TMA and HEAD_DIM > 64:  # a second loop begins with empty buffers; no other block on the SM hides that
        running_max, running_sum, accumulator = attend(
            q_tile, k_head, v_head, k_place, v_place, running_max, running_sum, accumulator,
            start, stop, full_start, full_stop, queries, columns, v_columns, seq_q, seq_kv, window,
            scale_log2, view, slope, cap, probe, probe_tile,
            CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_KV, MASK, False, PROBE, True,
        )  # fmt: skip
    else:
        running_max, running_sum, accumulator = attend_apart(
            q_tile, k_head, v_head, k_place, v_place, running_max, running_sum, accumulator,
            start, stop, full_start, full_stop, queries, columns, v_columns, seq_q, seq_kv, window,
            scale_log2, view, slope, cap, probe, probe_tile,
            CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_KV, MASK, PROBE, TMA,
        )  # fmt: skip

    lse_rows = lse + batch_head.to(tl.int64) * seq_q + queries
    tl.store(lse_rows, log_sum_exp(running_max, running_sum), mask=queries < seq_q)
    out_head = head_start(out, out_strides, batch, head)
    store_tile(out_head, out_strides, queries, v_columns, seq_q, V_DIM, normalised(accumulator, running_sum))
    store_times(blocks, began, TRACED)
