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
    added_of_seen,
    any_not_finite,
    head_start,
    inlined,
    load_tile,
    matmul,
    narrowed,
    store_tile,
)


@inlined
def add_to_keys(
    k_tile, v_tile, sums, query_tensors, span, keys, columns, sizes, score, terms, batch, batch_head,
    TILE: tl.constexpr, MASKED: tl.constexpr, RAGGED: tl.constexpr, APART: tl.constexpr = False,
):  # fmt: skip
    """Add a span of a head's query blocks to dK / scale and dV; APART: NaN to keys that are seen alone."""
    q_head, q_strides, d_out_head, d_out_strides, lse_head, delta_head = query_tensors
    d_k, d_v = sums
    start, stop = span
    seq_q = sizes[0]
    STEP: tl.constexpr = TILE.FEW if APART else TILE.BLOCK_Q
    for query_block in range(start, stop):
        queries = query_block * STEP + tl.arange(0, STEP)
        q_tile = load_tile(q_head, q_strides, queries, columns[0], seq_q, TILE.HEAD_DIM, RAGGED)
        d_out_tile = load_tile(d_out_head, d_out_strides, queries, columns[1], seq_q, TILE.V_DIM, RAGGED)
        lse = tl.load(lse_head + queries)
        delta = tl.load(delta_head + queries)
        products = matmul(k_tile, tl.trans(q_tile))  # transposed throughout: [keys, queries]
        if not TILE.RANGES:
            view = None
        else:
            view = seen_by(terms.ranges, batch, queries[None, :], seq_q)
            slope = None if terms.slopes is None else slope_of(terms.slopes, batch_head, score[1])
            limited = capped(products, score[2], TILE.FINE)
            products = sloped(limited, slope, view, keys[:, None])
        if MASKED:
            products = masked(products, queries[None, :], keys[:, None], sizes, view, TILE)
        d_weights = matmul(v_tile, tl.trans(d_out_tile))  # before the exponentials, which hide under it
        weights = tl.exp2(products * score[1] - lse[None, :])
        if APART:
            seen = products != float("-inf")
            weights = tl.where(seen, weights, 0.0)
            d_v = added_of_seen(
                d_v, narrowed(weights, d_out_tile.dtype), seen, (d_out_head, d_out_strides),
                queries, columns[1], seq_q, TILE.V_DIM,
            )  # fmt: skip
        else:
            d_v += matmul(narrowed(weights, d_out_tile.dtype), d_out_tile)
        d_scores = weights * (d_weights - delta[None, :])
        if TILE.RANGES:
            d_scores = uncapped(d_scores, limited, score[2])
        if APART:
            d_scores = narrowed(tl.where(seen, d_scores, 0.0), d_out_tile.dtype)
            d_k = added_of_seen(
                d_k, d_scores, seen, (q_head, q_strides), queries, columns[0], seq_q, TILE.HEAD_DIM
            )
        else:
            d_k += matmul(narrowed(d_scores, d_out_tile.dtype), q_tile)
    return d_k, d_v


@inlined
def queries_of(tensors, batch, head):
    """(The head's number in the batch, its Q and dO with their strides, its lse and delta)."""
    q, q_strides, d_out, d_out_strides, lse, delta, heads, padded_seq_q = tensors
    batch_head = batch * heads + head
    rows = batch_head.to(tl.int64) * padded_seq_q
    q_head, d_out_head = head_start(q, q_strides, batch, head), head_start(d_out, d_out_strides, batch, head)
    return batch_head, (q_head, q_strides, d_out_head, d_out_strides, lse + rows, delta + rows)


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window"])
def key_gradient_kernel(
    q, k, v, d_out, lse, delta, d_k, d_v, terms, strides,
    heads, kv_heads, seq_q, seq_kv, padded_seq_q, window, score, TILE: tl.constexpr, EVEN_GROUP: tl.constexpr,
):  # fmt: skip
    """One program a key block of a key head: dK, dV. EVEN_GROUP: (tiles are whole, heads that share)."""
    q_strides, k_strides, v_strides, d_out_strides, d_k_strides, d_v_strides = strides
    EVEN: tl.constexpr = EVEN_GROUP[0]
    GROUP: tl.constexpr = EVEN_GROUP[1]
    sizes = (seq_q, seq_kv, window)
    key_blocks = tl.cdiv(seq_kv, TILE.BLOCK_KV)
    key_block = tl.program_id(0) % key_blocks
    batch = tl.program_id(0) // key_blocks // kv_heads
    kv_head = tl.program_id(0) // key_blocks % kv_heads
    keys = key_block * TILE.BLOCK_KV + tl.arange(0, TILE.BLOCK_KV)
    columns, v_columns = tl.arange(0, TILE.BLOCK_D), tl.arange(0, TILE.BLOCK_V)
    both_columns = (columns, v_columns)
    tensors = (q, q_strides, d_out, d_out_strides, lse, delta, heads, padded_seq_q)
    k_head = head_start(k, k_strides, batch, kv_head)
    v_head = head_start(v, v_strides, batch, kv_head)
    k_tile = load_tile(k_head, k_strides, keys, columns, seq_kv, TILE.HEAD_DIM, True)
    v_tile = load_tile(v_head, v_strides, keys, v_columns, seq_kv, TILE.V_DIM, True)
    k_sum = tl.full([TILE.BLOCK_KV, TILE.BLOCK_D], 0.0, tl.float32)
    v_sum = tl.full([TILE.BLOCK_KV, TILE.BLOCK_V], 0.0, tl.float32)
    start, full_start, full_stop, stop = query_blocks_in(terms, batch, key_block, sizes, TILE)
    for member in range(0, GROUP):  # known to the compiler: no loop around the loops where it is 1
        batch_head, query_tensors = queries_of(tensors, batch, kv_head * GROUP + member)
        if TILE.CAUSAL or TILE.RANGES:  # the diagonal
            k_sum, v_sum = add_to_keys(
                k_tile, v_tile, (k_sum, v_sum), query_tensors, (start, full_start), keys, both_columns,
                sizes, score, terms, batch, batch_head, TILE, True, not EVEN,
            )  # fmt: skip
        k_sum, v_sum = add_to_keys(
            k_tile, v_tile, (k_sum, v_sum), query_tensors, (full_start, full_stop), keys, both_columns,
            sizes, score, terms, batch, batch_head, TILE, False, False,
        )  # fmt: skip
        if TILE.WINDOWED or TILE.RANGES or not EVEN:  # the window's far edge and the ragged end
            k_sum, v_sum = add_to_keys(
                k_tile, v_tile, (k_sum, v_sum), query_tensors, (full_stop, stop), keys, both_columns,
                sizes, score, terms, batch, batch_head, TILE, True, not EVEN,
            )  # fmt: skip
    if TILE.RANGES:  # noqa: SIM102 (known when compiling, what follows is not)
        if any_not_finite(k_sum) | any_not_finite(v_sum):  # perhaps of what only shares a tile
            k_sum = tl.full([TILE.BLOCK_KV, TILE.BLOCK_D], 0.0, tl.float32)
            v_sum = tl.full([TILE.BLOCK_KV, TILE.BLOCK_V], 0.0, tl.float32)
            few = (start * (TILE.BLOCK_Q // TILE.FEW), stop * (TILE.BLOCK_Q // TILE.FEW))
            for member in range(0, GROUP):
                batch_head, query_tensors = queries_of(tensors, batch, kv_head * GROUP + member)
                k_sum, v_sum = add_to_keys(
                    k_tile, v_tile, (k_sum, v_sum), query_tensors, few, keys, both_columns,
                    sizes, score, terms, batch, batch_head, TILE, True, True, True,
                )  # fmt: skip
    d_k_head = head_start(d_k, d_k_strides, batch, kv_head)
    d_v_head = head_start(d_v, d_v_strides, batch, kv_head)
    store_tile(d_k_head, d_k_strides, keys, columns, seq_kv, TILE.HEAD_DIM, k_sum * score[0])
    store_tile(d_v_head, d_v_strides, keys, v_columns, seq_kv, TILE.V_DIM, v_sum)


@inlined
def add_to_queries(
    q_tile, d_out_tile, lse, delta, d_q, key_tensors, span, queries, columns, sizes, score, view, slope,
    TILE: tl.constexpr, MASKED: tl.constexpr, RAGGED: tl.constexpr, APART: tl.constexpr = False,
):  # fmt: skip
    """Add a span of key blocks to dQ / scale; APART: NaN to queries that see its key alone."""
    k_head, k_strides, v_head, v_strides = key_tensors
    start, stop = span
    seq_kv = sizes[1]
    STEP: tl.constexpr = TILE.FEW if APART else TILE.BLOCK_KV
    for key_block in range(start, stop):
        keys = key_block * STEP + tl.arange(0, STEP)
        k_tile = load_tile(k_head, k_strides, keys, columns[0], seq_kv, TILE.HEAD_DIM, RAGGED)
        v_tile = load_tile(v_head, v_strides, keys, columns[1], seq_kv, TILE.V_DIM, RAGGED)
        products = matmul(q_tile, tl.trans(k_tile))
        if view is not None:
            limited = capped(products, score[2], TILE.FINE)
            products = sloped(limited, slope, view, keys[None, :])
        if MASKED:
            products = masked(products, queries[:, None], keys[None, :], sizes, view, TILE)
        d_weights = matmul(d_out_tile, tl.trans(v_tile))  # before the exponentials, which hide under it
        weights = tl.exp2(products * score[1] - lse[:, None])
        d_scores = weights * (d_weights - delta[:, None])
        if view is not None:
            d_scores = uncapped(d_scores, limited, score[2])
        if APART:
            seen = products != float("-inf")
            d_scores = narrowed(tl.where(seen, d_scores, 0.0), v_tile.dtype)
            d_q = added_of_seen(
                d_q, d_scores, seen, (k_head, k_strides), keys, columns[0], seq_kv, TILE.HEAD_DIM
            )
        else:
            d_q += matmul(narrowed(d_scores, v_tile.dtype), k_tile)
    return d_q


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window"])
def query_gradient_kernel(
    q, k, v, d_out, lse, delta, d_q, terms, strides,
    heads, kv_heads, seq_q, seq_kv, padded_seq_q, window, score, TILE: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """One program a query block of a head: dQ; score, as above: (scale, scale in log2, cap)."""
    q_strides, k_strides, v_strides, d_out_strides, d_q_strides = strides
    sizes = (seq_q, seq_kv, window)
    query_blocks = tl.cdiv(seq_q, TILE.BLOCK_Q)
    batch_head = tl.program_id(0) // query_blocks
    query_block = tl.program_id(0) % query_blocks
    if TILE.CAUSAL:  # the last query blocks see most keys: start them first
        query_block = query_blocks - 1 - query_block
    batch = batch_head // heads
    head = batch_head % heads
    kv_head = head // (heads // kv_heads)
    rows = batch_head.to(tl.int64) * padded_seq_q
    queries = query_block * TILE.BLOCK_Q + tl.arange(0, TILE.BLOCK_Q)
    columns, v_columns = tl.arange(0, TILE.BLOCK_D), tl.arange(0, TILE.BLOCK_V)
    q_head = head_start(q, q_strides, batch, head)
    d_out_head = head_start(d_out, d_out_strides, batch, head)
    k_head = head_start(k, k_strides, batch, kv_head)
    v_head = head_start(v, v_strides, batch, kv_head)
    q_tile = load_tile(q_head, q_strides, queries, columns, seq_q, TILE.HEAD_DIM, True)
    d_out_tile = load_tile(d_out_head, d_out_strides, queries, v_columns, seq_q, TILE.V_DIM, True)
    lse_rows = tl.load(lse + rows + queries)
    delta_rows = tl.load(delta + rows + queries)
    q_sum = tl.full([TILE.BLOCK_Q, TILE.BLOCK_D], 0.0, tl.float32)
    first = query_block * TILE.BLOCK_Q
    last = tl.minimum(first + TILE.BLOCK_Q, seq_q) - 1
    view = None
    slope = None
    if TILE.RANGES:
        view = seen_by(terms.ranges, batch, queries[:, None], seq_q)
        slope = None if terms.slopes is None else slope_of(terms.slopes, batch_head, score[1])
    start, full_start, full_stop, stop = key_blocks_in(terms, batch, first, last, sizes, TILE)
    key_tensors = (k_head, k_strides, v_head, v_strides)
    both_columns = (columns, v_columns)
    if TILE.WINDOWED or TILE.RANGES:  # the window's far edge
        q_sum = add_to_queries(
            q_tile, d_out_tile, lse_rows, delta_rows, q_sum, key_tensors, (start, full_start),
            queries, both_columns, sizes, score, view, slope, TILE, True, not EVEN,
        )  # fmt: skip
    q_sum = add_to_queries(
        q_tile, d_out_tile, lse_rows, delta_rows, q_sum, key_tensors, (full_start, full_stop),
        queries, both_columns, sizes, score, view, slope, TILE, False, False,
    )  # fmt: skip
    if TILE.CAUSAL or TILE.RANGES or not EVEN:  # the diagonal and the ragged end
        q_sum = add_to_queries(
            q_tile, d_out_tile, lse_rows, delta_rows, q_sum, key_tensors, (full_stop, stop),
            queries, both_columns, sizes, score, view, slope, TILE, True, not EVEN,
        )  # fmt: skip
    if TILE.RANGES:  # noqa: SIM102 (known when compiling, what follows is not)
        if any_not_finite(q_sum):  # perhaps of what only shares a tile
            few = (start * (TILE.BLOCK_KV // TILE.FEW), stop * (TILE.BLOCK_KV // TILE.FEW))
            nothing = tl.full([TILE.BLOCK_Q, TILE.BLOCK_D], 0.0, tl.float32)
            q_sum = add_to_queries(
                q_tile, d_out_tile, lse_rows, delta_rows, nothing, key_tensors, few,
                queries, both_columns, sizes, score, view, slope, TILE, True, True, True,
            )  # fmt: skip
    d_q_head = head_start(d_q, d_q_strides, batch, head)
    store_tile(d_q_head, d_q_strides, queries, columns, seq_q, TILE.HEAD_DIM, q_sum * score[0])
