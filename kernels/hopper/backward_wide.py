"""flash3's backward pass for a head_dim of 256, where a warp group has registers for one of dK and dV.

A block of threads keeps 64 keys. One consumer computes P and adds up dV, the other dS and dK: P goes to the
other by way of shared memory, as dS comes back, and each adds half of the columns of dQ to sums in global
memory. So scores and gradients of weights are computed once, and half of all products is each one's. V may
have a head_dim of its own.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernels.hopper.backward_common import CONSUMERS, add_d_queries, rows_of, store
from kernels.hopper.buffer_queue import BufferQueue, make_barriers
from kernels.hopper.warp_group import ROWS, accumulator_layout, as_operand, barrier_of_warps, start_product

D_SCORES = gl.constexpr(2)  # buffers for dS


@gluon.jit
def blocks_to_hand_over(DTYPE: gl.constexpr, BLOCK_Q: gl.constexpr):
    """Room for P and for dS."""
    TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, BLOCK_Q], DTYPE)
    weights = gl.allocate_shared_memory(DTYPE, [1, ROWS, BLOCK_Q], TILE)
    return weights, gl.allocate_shared_memory(DTYPE, [D_SCORES, ROWS, BLOCK_Q], TILE)


@gluon.jit
def make_handovers(blocks):
    """Queues of P and of dS, that one consumer fills for the other.

    None waits for an empty one. dS of visit i is full only when P of visit i is read, and P of visit i + 1 is
    stored after that; dS of visit i + 2 comes after P of visit i + 2, and that after dQ of visit i.
    """
    weights, d_scores = make_barriers(1, 1), make_barriers(D_SCORES, 1)
    return BufferQueue(blocks[0], weights, weights, 0, 0, None), BufferQueue(
        blocks[1], d_scores, d_scores, 0, 0, None
    )


@gluon.constexpr_function
def filled_columns(half, columns, consumer):
    """Of a consumer's half of the columns, so many as hold those that are: a power of two."""
    return min(half, 1 << (columns - consumer * half - 1).bit_length())


@gluon.jit
def _start_half_of_d_queries(visit, keys, d_scores, visits, CONSUMER: gl.constexpr):
    """Issue this consumer's columns of dQ / scale."""
    HALF: gl.constexpr = keys.blocks.shape[-1] // CONSUMERS
    FILLED: gl.constexpr = filled_columns(HALF, visits.HOW.COLUMNS, CONSUMER)
    BLOCK_Q: gl.constexpr = d_scores.blocks.shape[2]
    K = keys.block(0).reshape([ROWS, keys.blocks.shape[-1]]).slice(CONSUMER * HALF, FILLED, dim=1)
    nothing = gl.zeros([BLOCK_Q, FILLED], gl.float32, accumulator_layout(FILLED))
    return warpgroup_mma(d_scores.block(visit).permute((1, 0)), K, nothing, use_acc=False, is_async=True)


@gluon.jit
def _weigh(S, visit, place, lse, queries, visits, scale_log2):
    """P of this visit from its scores, and what dS is of it."""
    SCORES: gl.constexpr = accumulator_layout(visits.BLOCK_Q)
    S = visits.masked_if_partial(visits.capped(S), visits.key, place[1] * visits.BLOCK_Q, SCORES)
    row_lse = lse.index(queries.buffer(visit)).reshape([visits.BLOCK_Q]).load(gl.SliceLayout(0, SCORES))
    P = visits.weighed(S, row_lse[None, :], place, visits.key, 0, scale_log2, SCORES)
    return P.to(queries.blocks.dtype), visits.uncapped(P, S).to(queries.blocks.dtype)


@gluon.jit
def _start_scores(visit, K, queries, visits):
    """Issue K Q^T of this visit."""
    queries.wait_full(visit)
    nothing = gl.zeros([ROWS, visits.BLOCK_Q], gl.float32, accumulator_layout(visits.BLOCK_Q))
    return start_product(K, rows_of(queries, visit), nothing, False, visits.HOW.COLUMNS)


@gluon.jit
def _hand_over(queue, visit, tile):
    """Store a tile where the other consumer waits for it."""
    queue.block(visit).store(tile)
    fence_async_shared()
    barrier_of_warps()
    mbarrier.arrive(queue.arrival(visit), count=1)


@gluon.jit
def _consume_values(outputs, sums, queues, visits, scale_log2):
    """P for the other consumer, dV, and half of what the key block gives to dQ, a visit later."""
    keys, values, queries, d_outs, lse, _, handovers = queues
    weights, d_scores = handovers
    V_DIM: gl.constexpr = values.blocks.shape[-1]
    OPERANDS: gl.constexpr = accumulator_layout(V_DIM)
    K = keys.block(0).reshape([ROWS, keys.blocks.shape[-1]])
    d_V = gl.zeros([ROWS, V_DIM], gl.float32, OPERANDS)
    keys.wait_full(0)
    place = visits.first_place()
    S = _start_scores(0, K, queries, visits)
    S = warpgroup_mma_wait(0, deps=[S])
    P, handed = _weigh(S, 0, place, lse, queries, visits, scale_log2)
    _hand_over(weights, 0, handed)
    queries.release(0)
    P = as_operand(P, K.dtype, OPERANDS)
    d_outs.wait_full(0)
    d_V = warpgroup_mma(P, rows_of(d_outs, 0), d_V, is_async=True)
    d_V, P = warpgroup_mma_wait(0, deps=[d_V, P])
    d_outs.release(0)
    for visit in range(1, visits.count()):
        last_place = place
        place = visits.next_place(place)
        S = _start_scores(visit, K, queries, visits)
        S = warpgroup_mma_wait(0, deps=[S])
        P, handed = _weigh(S, visit, place, lse, queries, visits, scale_log2)
        d_scores.wait_full(visit - 1)  # by then the other consumer has read the last P
        _hand_over(weights, visit, handed)
        queries.release(visit)
        d_Q = _start_half_of_d_queries(visit - 1, keys, d_scores, visits, 0)
        P = as_operand(P, K.dtype, OPERANDS)
        d_outs.wait_full(visit)
        d_V = warpgroup_mma(P, rows_of(d_outs, visit), d_V, is_async=True)
        d_Q = warpgroup_mma_wait(1, deps=[d_Q])
        add_d_queries(d_Q, sums, last_place, visits, 0)
        d_V, P = warpgroup_mma_wait(0, deps=[d_V, P])
        d_outs.release(visit)
    d_scores.wait_full(visits.count() - 1)  # who stored dS has read V for the last time
    d_Q = _start_half_of_d_queries(visits.count() - 1, keys, d_scores, visits, 0)
    store(d_V, outputs, 1, values.block(0), visits, 0, 1)
    d_Q = warpgroup_mma_wait(0, deps=[d_Q])
    add_d_queries(d_Q, sums, place, visits, 0)
    tma.store_wait(0)


@gluon.jit
def _consume_keys(outputs, sums, queues, visits, scale):
    """dS for both consumers, dK, and half of what the key block gives to dQ."""
    keys, values, queries, d_outs, _, delta, handovers = queues
    weights, d_scores = handovers
    HEAD_DIM: gl.constexpr = keys.blocks.shape[-1]
    OPERANDS: gl.constexpr = accumulator_layout(HEAD_DIM)
    SCORES: gl.constexpr = accumulator_layout(visits.BLOCK_Q)
    QUERIES: gl.constexpr = gl.SliceLayout(0, SCORES)
    V = values.block(0).reshape([ROWS, values.blocks.shape[-1]])
    V_COLUMNS: gl.constexpr = visits.HOW.COLUMNS if V.shape[1] == HEAD_DIM else V.shape[1]
    d_K = gl.zeros([ROWS, HEAD_DIM], gl.float32, OPERANDS)
    keys.wait_full(0)
    values.wait_full(0)
    place = visits.first_place()
    for visit in range(visits.count()):
        d_outs.wait_full(visit)
        row_delta = delta.index(d_outs.buffer(visit)).reshape([visits.BLOCK_Q]).load(QUERIES)
        d_P = gl.zeros([ROWS, visits.BLOCK_Q], gl.float32, SCORES) - row_delta[None, :]
        d_P = start_product(V, rows_of(d_outs, visit), d_P, True, V_COLUMNS)
        d_P = warpgroup_mma_wait(0, deps=[d_P])
        d_outs.release(visit)
        weights.wait_full(visit)
        P = weights.block(visit).load(SCORES)
        d_S = (P.to(gl.float32) * d_P).to(V.dtype)
        _hand_over(d_scores, visit, d_S)
        d_Q = _start_half_of_d_queries(visit, keys, d_scores, visits, 1)
        d_S = as_operand(d_S, V.dtype, OPERANDS)
        d_K = warpgroup_mma(d_S, rows_of(queries, visit), d_K, is_async=True)
        d_Q = warpgroup_mma_wait(1, deps=[d_Q])
        add_d_queries(d_Q, sums, place, visits, 1)
        d_K, d_S = warpgroup_mma_wait(0, deps=[d_K, d_S])
        queries.release(visit)
        place = visits.next_place(place)
    # the other consumer is done with the last queries: P came after their scores
    store(d_K * scale, outputs, 0, queries.block(visits.count() - 1), visits, 0, 1)
    tma.store_wait(0)


@gluon.jit
def consume_wide(outputs, sums, queues, visits, scale, scale_log2, CONSUMER: gl.constexpr):
    """What the first consumer does, and the other."""
    if CONSUMER == 0:
        _consume_values(outputs, sums, queues, visits, scale_log2)
    else:
        _consume_keys(outputs, sums, queues, visits, scale)
