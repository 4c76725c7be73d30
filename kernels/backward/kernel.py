"""The two large kernels of `backward`: dK and dV of a key block, dQ of a query block."""

import triton
import triton.language as tl

from kernels.tile.scores import (
    capped,
    key_blocks_in,
    masked,
    query_blocks_in,
    seen_by,
    slope_of,
    sloped,
    uncapped,
)
from kernels.tile.tile import (
    added,
    head_start,
    inlined,
    key_blocks_of,
    load_parts,
    load_tile,
    matmul,
    narrowed,
    products_of,
    query_blocks_of,
    store_parts,
    store_tile,
    zeros_of,
)


@inlined
def add_to_keys(
    k_tile, v_tile, d_k, d_v, q_head, d_out_head, lse_head, delta_head, q_strides, d_out_strides, start, stop,
    keys, columns, v_columns, seq_q, seq_kv, window, scale_log2, ranges, slopes, cap, batch, batch_head,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, V_DIM: tl.constexpr,
    BLOCK_Q: tl.constexpr, MASKED: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Add what query blocks start to stop - 1 of a head give to dK / scale and dV of a key block."""
    PARTS: tl.constexpr = 3 if HEAD_DIM == 192 else 1
    for query_block in range(start, stop):
        queries = query_block * BLOCK_Q + tl.arange(0, BLOCK_Q)
        q_tile = load_parts(q_head, q_strides, queries, columns, seq_q, HEAD_DIM, RAGGED)
        d_out_tile = load_tile(d_out_head, d_out_strides, queries, v_columns, seq_q, V_DIM, RAGGED)
        lse = tl.load(lse_head + queries)
        delta = tl.load(delta_head + queries)
        products = products_of(k_tile, q_tile, PARTS)  # transposed throughout: [keys, queries]
        if ranges is None:
            view = None
        else:
            view = seen_by(ranges, batch, queries[None, :], seq_q)
            slope = None if slopes is None else slope_of(slopes, batch_head, scale_log2)
            limited = capped(products, cap)
            products = sloped(limited, slope, view, keys[:, None])
        if MASKED:
            products = masked(
                products, queries[None, :], keys[:, None], seq_q, seq_kv, window, view, CAUSAL, WINDOWED
            )
        d_weights = matmul(v_tile, tl.trans(d_out_tile))  # before the exponentials, which hide under it
        weights = tl.exp2(products * scale_log2 - lse[None, :])
        d_v += matmul(narrowed(weights, d_out_tile.dtype), d_out_tile)
        d_scores = weights * (d_weights - delta[None, :])
        if ranges is not None:
            d_scores = uncapped(d_scores, limited, cap)
        d_k = added(d_k, narrowed(d_scores, d_out_tile.dtype), q_tile, PARTS)
    return d_k, d_v


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window"])
def key_gradient_kernel(
    q, k, v, d_out, lse, delta, d_k, d_v, ranges, seers, slopes,
    q_strides, k_strides, v_strides, d_out_strides, d_k_strides, d_v_strides,
    heads, kv_heads, seq_q, seq_kv, padded_seq_q, window, scale, scale_log2, cap,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    V_DIM: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr,
    EVEN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One program a key block of a key head, over all query heads that share it: dK and dV.

    ranges, seers, slopes and cap as in `kernels.tile.scores`, None where the plain mask is all.
    """
    PARTS: tl.constexpr = 3 if HEAD_DIM == 192 else 1
    key_blocks = tl.cdiv(seq_kv, BLOCK_KV)
    key_block = tl.program_id(0) % key_blocks
    batch = tl.program_id(0) // key_blocks // kv_heads
    kv_head = tl.program_id(0) // key_blocks % kv_heads
    keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
    columns, v_columns = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_V)
    k_head = head_start(k, k_strides, batch, kv_head)
    v_head = head_start(v, v_strides, batch, kv_head)
    k_tile = load_parts(k_head, k_strides, keys, columns, seq_kv, HEAD_DIM, True)
    v_tile = load_tile(v_head, v_strides, keys, v_columns, seq_kv, V_DIM, True)
    k_sum = zeros_of(BLOCK_KV, BLOCK_D, PARTS)
    v_sum = tl.zeros([BLOCK_KV, BLOCK_V], tl.float32)
    if ranges is None:
        start, full_start, full_stop, stop = query_blocks_of(
            key_block, seq_q, seq_kv, window, CAUSAL, WINDOWED, BLOCK_Q, BLOCK_KV
        )
    else:
        start, full_start, full_stop, stop = query_blocks_in(
            seers, batch, key_block, seq_q, seq_kv, BLOCK_Q, BLOCK_KV
        )
    for member in range(0, GROUP):  # known to the compiler: no loop around the loops where it is 1
        head = kv_head * GROUP + member
        batch_head = batch * heads + head
        rows = batch_head.to(tl.int64) * padded_seq_q
        q_head = head_start(q, q_strides, batch, head)
        d_out_head = head_start(d_out, d_out_strides, batch, head)
        if CAUSAL or ranges is not None:  # the diagonal
            k_sum, v_sum = add_to_keys(
                k_tile, v_tile, k_sum, v_sum, q_head, d_out_head, lse + rows, delta + rows,
                q_strides, d_out_strides, start, full_start,
                keys, columns, v_columns, seq_q, seq_kv, window, scale_log2,
                ranges, slopes, cap, batch, batch_head,
                CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_Q, True, not EVEN,
            )  # fmt: skip
        k_sum, v_sum = add_to_keys(
            k_tile, v_tile, k_sum, v_sum, q_head, d_out_head, lse + rows, delta + rows,
            q_strides, d_out_strides, full_start, full_stop,
            keys, columns, v_columns, seq_q, seq_kv, window, scale_log2,
            ranges, slopes, cap, batch, batch_head, CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_Q, False, False,
        )  # fmt: skip
        if WINDOWED or ranges is not None or not EVEN:  # the window's far edge and the ragged end
            k_sum, v_sum = add_to_keys(
                k_tile, v_tile, k_sum, v_sum, q_head, d_out_head, lse + rows, delta + rows,
                q_strides, d_out_strides, full_stop, stop,
                keys, columns, v_columns, seq_q, seq_kv, window, scale_log2,
                ranges, slopes, cap, batch, batch_head,
                CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_Q, True, not EVEN,
            )  # fmt: skip
    d_k_head = head_start(d_k, d_k_strides, batch, kv_head)
    d_v_head = head_start(d_v, d_v_strides, batch, kv_head)
    store_parts(d_k_head, d_k_strides, keys, columns, seq_kv, HEAD_DIM, k_sum, scale)
    store_tile(d_v_head, d_v_strides, keys, v_columns, seq_kv, V_DIM, v_sum)


@inlined
def add_to_queries(
    q_tile, d_out_tile, lse, delta, d_q, k_head, v_head, k_strides, v_strides, start, stop,
    queries, columns, v_columns, seq_q, seq_kv, window, scale_log2, view, slope, cap,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, V_DIM: tl.constexpr,
    BLOCK_KV: tl.constexpr, MASKED: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Add what key blocks start to stop - 1 give to dQ / scale of a query block."""
    PARTS: tl.constexpr = 3 if HEAD_DIM == 192 else 1
    for key_block in range(start, stop):
        keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
        k_tile = load_parts(k_head, k_strides, keys, columns, seq_kv, HEAD_DIM, RAGGED)
        v_tile = load_tile(v_head, v_strides, keys, v_columns, seq_kv, V_DIM, RAGGED)
        products = products_of(q_tile, k_tile, PARTS)
        if view is not None:
            limited = capped(products, cap)
            products = sloped(limited, slope, view, keys[None, :])
        if MASKED:
            products = masked(
                products, queries[:, None], keys[None, :], seq_q, seq_kv, window, view, CAUSAL, WINDOWED
            )
        d_weights = matmul(d_out_tile, tl.trans(v_tile))  # before the exponentials, which hide under it
        weights = tl.exp2(products * scale_log2 - lse[:, None])
        d_scores = weights * (d_weights - delta[:, None])
        if view is not None:
            d_scores = uncapped(d_scores, limited, cap)
        d_q = added(d_q, narrowed(d_scores, v_tile.dtype), k_tile, PARTS)
    return d_q


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window"])
def query_gradient_kernel(
    q, k, v, d_out, lse, delta, d_q, ranges, slopes,
    q_strides, k_strides, v_strides, d_out_strides, d_q_strides,
    heads, kv_heads, seq_q, seq_kv, padded_seq_q, window, scale, scale_log2, cap,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    V_DIM: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    """One program a query block of a head: dQ; ranges, slopes and cap as above."""
    PARTS: tl.constexpr = 3 if HEAD_DIM == 192 else 1
    query_blocks = tl.cdiv(seq_q, BLOCK_Q)
    batch_head = tl.program_id(0) // query_blocks
    query_block = tl.program_id(0) % query_blocks
    if CAUSAL:  # the last query blocks see most keys: start them first
        query_block = query_blocks - 1 - query_block
    batch = batch_head // heads
    head = batch_head % heads
    kv_head = head // (heads // kv_heads)
    rows = batch_head.to(tl.int64) * padded_seq_q
    queries = query_block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns, v_columns = tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_V)
    q_head = head_start(q, q_strides, batch, head)
    d_out_head = head_start(d_out, d_out_strides, batch, head)
    k_head = head_start(k, k_strides, batch, kv_head)
    v_head = head_start(v, v_strides, batch, kv_head)
    q_tile = load_parts(q_head, q_strides, queries, columns, seq_q, HEAD_DIM, True)
    d_out_tile = load_tile(d_out_head, d_out_strides, queries, v_columns, seq_q, V_DIM, True)
    lse_rows = tl.load(lse + rows + queries)
    delta_rows = tl.load(delta + rows + queries)
    q_sum = zeros_of(BLOCK_Q, BLOCK_D, PARTS)
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
    if WINDOWED or ranges is not None:  # the window's far edge
        q_sum = add_to_queries(
            q_tile, d_out_tile, lse_rows, delta_rows, q_sum, k_head, v_head, k_strides, v_strides,
            start, full_start, queries, columns, v_columns,
            seq_q, seq_kv, window, scale_log2, view, slope, cap,
            CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_KV, True, not EVEN,
        )  # fmt: skip
    q_sum = add_to_queries(
        q_tile, d_out_tile, lse_rows, delta_rows, q_sum, k_head, v_head, k_strides, v_strides,
        full_start, full_stop, queries, columns, v_columns,
        seq_q, seq_kv, window, scale_log2, view, slope, cap,
        CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_KV, False, False,
    )  # fmt: skip
    if CAUSAL or ranges is not None or not EVEN:  # the diagonal and the ragged end
        q_sum = add_to_queries(
            q_tile, d_out_tile, lse_rows, delta_rows, q_sum, k_head, v_head, k_strides, v_strides,
            full_stop, stop, queries, columns, v_columns,
            seq_q, seq_kv, window, scale_log2, view, slope, cap,
            CAUSAL, WINDOWED, HEAD_DIM, V_DIM, BLOCK_KV, True, not EVEN,
        )  # fmt: skip
    d_q_head = head_start(d_q, d_q_strides, batch, head)
    store_parts(d_q_head, d_q_strides, queries, columns, seq_q, HEAD_DIM, q_sum, scale)
