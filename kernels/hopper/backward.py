"""The backward pass on Hopper as one kernel, in Gluon: a warp that copies, warp groups that compute.

A block of threads keeps a block of K and V in shared memory, 64 keys for each of its two consumers. By TMA
its producer warp copies the query blocks that see them, one after another: Q, dO, lse and delta. A consumer
computes all transposed, [keys, queries]: so P and dS are in the registers from which wgmma takes its left
operand, for dV += P dO and dK += dS Q. dQ = dS K takes the keys of both consumers: each leaves its dS in
shared memory, and with the next query block each passes on half of dQ to sums in global memory.
Source: Shah et al., FlashAttention-3, arXiv 2407.08608, section 3 and appendix B.
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

from kernels.hopper.backward_common import (
    CONSUMERS,
    ROOM,
    add_d_queries,
    add_in_bulk,
    hand_over,
    leave_d_queries,
    leave_nothing,
    make_exchange,
    produce,
    rows_of,
    store,
    store_nothing,
    wait_for_both,
    without,
)
from kernels.hopper.backward_wide import blocks_to_hand_over, consume_wide, make_handovers
from kernels.hopper.buffer_queue import BufferQueue, blocks_for, make_barriers, make_queue
from kernels.hopper.visits import visits_of
from kernels.hopper.warp_group import (
    ROWS,
    accumulator_layout,
    as_operand,
    barrier_of_warps,
    part_count,
    start,
    start_product,
)

SIDE = gl.constexpr(64)  # a consumer's half of a query block's dQ: SIDE queries x SIDE columns


@gluon.jit
def _terms(terms, queue, visit, FROM: gl.constexpr, LAYOUT: gl.constexpr):
    """The numbers that go with those rows, in a row."""
    block = without(terms.index(queue.buffer(visit)).reshape([queue.blocks.shape[-2]]), FROM, 0)
    return block.load(gl.SliceLayout(0, LAYOUT))[None, :]


@gluon.jit
def _pass_on(d_Q, sums, place, visits, exchange, CONSUMER: gl.constexpr):
    """Half of dQ / scale on its way to the sums."""
    sums, room = sums
    if exchange.NAME:
        leave_d_queries(d_Q, room, CONSUMER)
    else:
        add_d_queries(d_Q, sums, place, visits, CONSUMER)


@gluon.jit
def _start_d_values(
    visit, place, K, V, d_V, queues, visits, scale_log2,
    CONSUMER: gl.constexpr, FROM: gl.constexpr = 0, CUT: gl.constexpr = True,
):  # fmt: skip
    """Issue dV + P dO of a visit's queries from FROM on, and leave dS in `exchange`; also P and dS."""
    _, _, queries, d_outs, lse, delta, exchange = queues
    QUERIES: gl.constexpr = visits.BLOCK_Q - FROM
    SCORES: gl.constexpr = accumulator_layout(QUERIES)
    OPERANDS: gl.constexpr = accumulator_layout(K.shape[1])
    nothing = gl.zeros([ROWS, QUERIES], gl.float32, SCORES)
    # S^T = K Q_i^T and dP^T = V dO_i^T are issued, P under dP
    queries.wait_full(visit)
    COLUMNS: gl.constexpr = visits.HOW.COLUMNS
    S = start_product(K, rows_of(queries, visit, FROM), nothing, False, COLUMNS)
    d_outs.wait_full(visit)
    # dP - delta of one product: there are too few registers to hold delta beside dP
    d_P = nothing - _terms(delta, d_outs, visit, FROM, SCORES)
    d_P = start_product(V, rows_of(d_outs, visit, FROM), d_P, True, COLUMNS)
    S = warpgroup_mma_wait(part_count(COLUMNS, 0), deps=[S])
    S = visits.capped(S)
    key = visits.key + CONSUMER * ROWS
    if CUT:
        S = visits.masked_if_partial(S, key, place[1] * visits.BLOCK_Q + FROM, SCORES)
    row_lse = _terms(lse, queries, visit, FROM, SCORES)
    weights = visits.weighed(S, row_lse, place, key, FROM, scale_log2, SCORES)
    P = as_operand(weights, K.dtype, OPERANDS)
    weights = visits.uncapped(weights, S)
    LATE: gl.constexpr = QUERIES > SIDE  # dV + P dO: P and dP of so many queries would be spilled
    if LATE:
        d_P = warpgroup_mma_wait(0, deps=[d_P])
    else:
        d_V = warpgroup_mma(P, rows_of(d_outs, visit, FROM), d_V, is_async=True)
        d_P = warpgroup_mma_wait(1, deps=[d_P])
    # dS = P o (dP - delta), which both consumers need for dQ
    d_S = (weights * d_P).to(K.dtype)
    if FROM > 0:
        leave_nothing(exchange, visit, CONSUMER, FROM)
    without(exchange.block(visit, CONSUMER), FROM, 1).store(d_S)
    hand_over(exchange, visit, CONSUMER)
    if LATE:
        d_V = warpgroup_mma(P, rows_of(d_outs, visit, FROM), d_V, is_async=True)
    return d_V, P, as_operand(d_S, K.dtype, OPERANDS)


@gluon.jit
def _visit_first(
    place, K, V, gradients, queues, visits, scale_log2, head_start,
    CONSUMER: gl.constexpr, FROM: gl.constexpr,
):  # fmt: skip
    """dV and dK of the first visit, whose queries see no key of this consumer before FROM."""
    d_V, d_K = gradients
    d_V, P, d_S = _start_d_values(0, place, K, V, d_V, queues, visits, scale_log2, CONSUMER, FROM)
    if CONSUMER == 0 and not visits.HOW.SQUARE:
        mbarrier.arrive(head_start.index(0), count=1)
    d_K = warpgroup_mma(d_S, rows_of(queues[2], 0, FROM), d_K, is_async=True)
    d_V, d_K, P, d_S = warpgroup_mma_wait(0, deps=[d_V, d_K, P, d_S])
    return d_V, d_K


@gluon.jit
def _start_d_queries(visit, keys, exchange, CONSUMER: gl.constexpr):
    """Issue this half of dQ / scale: of the queries if they are more than SIDE, else of the columns."""
    HEAD_DIM: gl.constexpr = keys.blocks.shape[-1]
    wait_for_both(exchange, visit, CONSUMER)
    d_Q = gl.zeros([SIDE, SIDE], gl.float32, accumulator_layout(SIDE))
    for part in gl.static_range(CONSUMERS):
        d_S = exchange.block(visit, part)
        K = keys.block(0, part).reshape([ROWS, HEAD_DIM])
        if d_S.shape[1] > SIDE:
            d_S = d_S.slice(CONSUMER * SIDE, SIDE, dim=1)
        else:
            K = K.slice(CONSUMER * SIDE, SIDE, dim=1)
        d_Q = warpgroup_mma(d_S.permute((1, 0)), K, d_Q, use_acc=part > 0, is_async=True)
    return d_Q


@gluon.jit
def _visit(
    visit, last_place, K, V, gradients, sums, queues, visits, scale_log2,
    CONSUMER: gl.constexpr, CUT: gl.constexpr,
):  # fmt: skip
    """dV and dK with a visit's share, and its place; dQ of the one before is added to the sums."""
    d_V, d_K = gradients
    keys, _, queries, _, _, _, exchange = queues
    place = visits.next_place(last_place)
    d_V, P, d_S = _start_d_values(visit, place, K, V, d_V, queues, visits, scale_log2, CONSUMER, CUT=CUT)
    # dQ of the visit before, and dK += dS^T Q_i
    d_Q = _start_d_queries(visit - 1, keys, exchange, CONSUMER)
    d_K = warpgroup_mma(d_S, rows_of(queries, visit), d_K, is_async=True)
    d_Q = warpgroup_mma_wait(1, deps=[d_Q])
    _pass_on(d_Q, sums, last_place, visits, exchange, CONSUMER)
    d_V, d_K, P, d_S = warpgroup_mma_wait(0, deps=[d_V, d_K, P, d_S])
    queries.release(visit)
    return d_V, d_K, place


@gluon.jit
def _visit_unseen(visit, last_place, sums, keys, exchange, visits, CONSUMER: gl.constexpr):
    """A visit whose queries see no key of this consumer: dQ of the one before is all; returns its place."""
    place = visits.next_place(last_place)
    leave_nothing(exchange, visit, CONSUMER, visits.BLOCK_Q)
    hand_over(exchange, visit, CONSUMER)
    d_Q = _start_d_queries(visit - 1, keys, exchange, CONSUMER)
    d_Q = warpgroup_mma_wait(0, deps=[d_Q])
    _pass_on(d_Q, sums, last_place, visits, exchange, CONSUMER)
    return place


@gluon.jit
def _consume(outputs, sums, queues, visits, scale, scale_log2, head_start, CONSUMER: gl.constexpr):
    """dK and dV of ROWS keys, and half of what the key block gives to dQ, a visit later than the rest."""
    keys, values, queries, _, _, _, exchange = queues
    HEAD_DIM: gl.constexpr = keys.blocks.shape[-1]
    K = keys.block(0, CONSUMER).reshape([ROWS, HEAD_DIM])
    V_block = values.block(0, CONSUMER)
    V = V_block.reshape([ROWS, HEAD_DIM])
    d_V = gl.zeros([ROWS, HEAD_DIM], gl.float32, accumulator_layout(HEAD_DIM))
    d_K = gl.zeros([ROWS, HEAD_DIM], gl.float32, accumulator_layout(HEAD_DIM))

    HOW: gl.constexpr = visits.HOW
    # queries at the start of the first block that see no key of this consumer, and whether the last may not
    HIDDEN: gl.constexpr = ROWS if HOW.SQUARE and CONSUMER == 1 else 0
    SHORT: gl.constexpr = HOW.SQUARE and HOW.WINDOWED and CONSUMER == 0 and visits.BLOCK_Q == ROWS

    keys.wait_full(0)
    values.wait_full(0)
    place = visits.first_place()
    if CONSUMER == 1:  # one multiplies while the other takes exponentials
        mbarrier.wait(head_start.index(0), 0)
    if SHORT:  # so that the machine code is what was timed, of the other kernels below
        end = visits.count()
    if HIDDEN == visits.BLOCK_Q:
        leave_nothing(exchange, 0, CONSUMER, HIDDEN)
        hand_over(exchange, 0, CONSUMER)
    else:
        d_V, d_K = _visit_first(
            place, K, V, (d_V, d_K), queues, visits, scale_log2, head_start, CONSUMER, HIDDEN
        )
        if CONSUMER == 0 and visits.HOW.SQUARE:  # the other has less of this visit, or none
            mbarrier.arrive(head_start.index(0), count=1)
    queries.release(0)
    if not SHORT:
        end = visits.count()
    else:
        end -= gl.where(visits.sees(visits.key, visits.end - 1), 0, 1)
    # a first visit stands before the loop: ptxas waits between a partition's first two products (C7517)
    after = gl.minimum(end, 2 if HIDDEN == visits.BLOCK_Q else 1)
    for visit in range(1, after):
        d_V, d_K, place = _visit(
            visit, place, K, V, (d_V, d_K), sums, queues, visits, scale_log2, CONSUMER, CUT=True
        )
    for visit in range(after, end):
        d_V, d_K, place = _visit(
            visit, place, K, V, (d_V, d_K), sums, queues, visits, scale_log2, CONSUMER, CUT=not HOW.FULL
        )
    if SHORT:  # noqa: SIM102 (known when compiling, what follows is not)
        if end < visits.count():
            place = _visit_unseen(end, place, sums, keys, exchange, visits, CONSUMER)
    d_Q = _start_d_queries(visits.count() - 1, keys, exchange, CONSUMER)
    store(d_V, outputs, 1, V_block, visits, CONSUMER, CONSUMERS)
    d_Q = warpgroup_mma_wait(0, deps=[d_Q])
    _pass_on(d_Q, sums, place, visits, exchange, CONSUMER)
    tma.store_wait(0)
    barrier_of_warps()
    store(d_K * scale, outputs, 0, V_block, visits, CONSUMER, CONSUMERS)
    tma.store_wait(0)


@gluon.jit(
    do_not_specialize=[
        "batch_heads", "heads_together", "window",
        "whole", "coarse", "coarse_shares", "fine_shares",
    ]
)  # fmt: skip
def gradient_kernel(
    q_tensor, k_tensor, v_tensor, d_out_tensor, lse_tensor, delta_tensor, d_k_tensor, d_v_tensor, sums,
    others, batch_heads, heads_together, window, whole, coarse, coarse_shares, fine_shares, score,
    HOW: gl.constexpr,
):  # fmt: skip
    """One block of threads a key block of a key head, or a share of one: dK, dV, and what it adds to dQ.

    Tensors are descriptors [batch, heads, seq, head_dim], lse and delta [batch, heads, seq]; sums is what
    `add_d_queries` takes, or, where BULK, `add_in_bulk`. whole to fine_shares: of `Shares`, where SHARED.
    others: slopes, and places of packed sequences' blocks, or None. score: scales of dK and of scores in
    units of log2, and the cap, per_slope, ahead and prefix of `Visits`.
    """
    scale, scale_log2 = score[0], score[1]
    BUFFERS: gl.constexpr = HOW.BUFFERS
    BLOCK_Q: gl.constexpr = q_tensor.block_type.shape[-2]
    PARTS: gl.constexpr = HOW.BLOCK_KV // ROWS
    visits = visits_of(
        gl.program_id(0), batch_heads, k_tensor.shape[-3], heads_together,
        q_tensor.shape[-3] // k_tensor.shape[-3], q_tensor.shape[-2], k_tensor.shape[-2], window, score,
        others if HOW.OTHERS else (None,) * 2,
        (whole, coarse, coarse_shares, fine_shares), lse_tensor.shape[2], BLOCK_Q,
        HOW.BLOCK_KV, HOW,
    )  # fmt: skip
    k_blocks, v_blocks = blocks_for(k_tensor, PARTS), blocks_for(v_tensor, PARTS)
    q_blocks, d_out_blocks = blocks_for(q_tensor, BUFFERS), blocks_for(d_out_tensor, BUFFERS)
    if HOW.WIDE:
        weights_and_d_scores = blocks_to_hand_over(q_tensor.dtype, BLOCK_Q)
    lse = gl.allocate_shared_memory(gl.float32, [BUFFERS, 1, 1, BLOCK_Q], lse_tensor.layout)
    delta = gl.allocate_shared_memory(gl.float32, [BUFFERS, 1, 1, BLOCK_Q], delta_tensor.layout)
    keys, values = make_queue(k_blocks, 1, CONSUMERS), make_queue(v_blocks, 1, CONSUMERS)
    queries = make_queue(q_blocks, BUFFERS, CONSUMERS)
    inputs = (q_tensor, k_tensor, v_tensor, d_out_tensor, lse_tensor, delta_tensor)
    outputs = (d_k_tensor, d_v_tensor, sums)
    if visits.first_key is not None:  # noqa: SIM102 (known when compiling, what follows is not)
        if visits.nothing_to_visit():
            store_nothing(d_k_tensor, k_blocks, visits)
            store_nothing(d_v_tensor, v_blocks, visits)
            return
    if HOW.WIDE:
        d_outs = make_queue(d_out_blocks, BUFFERS, CONSUMERS)
        queues = (keys, values, queries, d_outs, lse, delta, make_handovers(weights_and_d_scores))
        fence_async_shared()
        consumed = outputs, sums, queues, visits, scale, scale_log2
        start(consume_wide, consumed, [(produce, (inputs, queues, visits))], HOW)
    else:
        # who releases Q releases dO
        d_outs = BufferQueue(d_out_blocks, make_barriers(BUFFERS, 1), queries.empty, 0, 0, None)
        queues = (keys, values, queries, d_outs, lse, delta, make_exchange(q_tensor.dtype, BLOCK_Q, HOW.BULK))
        head_start = make_barriers(1, 1)
        fence_async_shared()
        if HOW.BULK:
            ROOMS: gl.constexpr = [CONSUMERS, ROOM[0], ROOM[1], ROOM[2]]
            room = gl.allocate_shared_memory(gl.float32, ROOMS, sums.layout)
            consumed = outputs, (sums, room), queues, visits, scale, scale_log2, head_start
            start(
                _consume, consumed,
                [(produce, (inputs, queues, visits)), (add_in_bulk, (sums, room, visits))], HOW,
            )  # fmt: skip
        else:
            consumed = outputs, (sums, lse), queues, visits, scale, scale_log2, head_start
            start(_consume, consumed, [(produce, (inputs, queues, visits))], HOW)
