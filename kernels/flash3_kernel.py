"""FlashAttention-3's forward pass on Hopper, in Gluon: a warp that copies, warp groups that compute.

A block of threads stays on its SM and takes tiles, 64 query rows for each of its consumers, until none is
left. The producer warp copies Q, K and V into shared memory by TMA. Each consumer warp group issues the
scores of key block j together with P V of key block j - 1, so that the softmax of j runs under a product.
Source: Shah et al., FlashAttention-3, arXiv 2407.08608, algorithm 2.
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

from kernels.flash3_schedule import Schedule, make_ring

ROWS = gl.constexpr(64)  # query rows of a warp group: what one wgmma takes
FIRST_TURN_BARRIER = gl.constexpr(8)  # named barriers 8, 9, ...: Triton itself takes the lowest
LN_2 = gl.constexpr(0.6931471805599453)

# the name of the barrier of a block of threads (inside a partition: of its warps) changed in Triton 3.7
barrier_of_warps = getattr(gl, "barrier", None) or gl.thread_barrier


@gluon.constexpr_function
def accumulator_layout(columns):
    return gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, columns, 16])


@gluon.constexpr_function
def named_barrier_asm(action, name, threads):
    return f"bar.{action} {name}, {threads}; mov.b32 $0, $1;"


@gluon.jit
def _named_barrier(ACTION: gl.constexpr, NAME: gl.constexpr):
    """PTX `bar.sync` or `bar.arrive` between two warp groups."""
    ASM: gl.constexpr = named_barrier_asm(ACTION, NAME, 256)
    thread = gl.full([128], 0, gl.int32, gl.BlockedLayout([1], [32], [4], [0]))
    gl.inline_asm_elementwise(ASM, "=r,r", [thread], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def _take_turn(CONSUMER: gl.constexpr, TURNS: gl.constexpr):
    if TURNS:
        _named_barrier("sync", FIRST_TURN_BARRIER + CONSUMER)


@gluon.jit
def _pass_turn(CONSUMER: gl.constexpr, CONSUMERS: gl.constexpr, TURNS: gl.constexpr):
    if TURNS:
        _named_barrier("arrive", FIRST_TURN_BARRIER + (CONSUMER + 1) % CONSUMERS)


@gluon.jit
def _load(ring, visit, descriptor, buffers, batch, head, row):
    """Copy one block of K or V into its ring once its last reader is done."""
    ring.wait_empty(visit)
    mbarrier.expect(ring.arrival(visit), descriptor.block_type.nbytes)
    tma.async_copy_global_to_shared(
        descriptor, [batch, head, row, 0], ring.arrival(visit), buffers.index(ring.buffer(visit))
    )


@gluon.jit
def _load_queries(ring, visit, descriptor, buffers, batch, head, row, CONSUMERS: gl.constexpr):
    """Copy a tile of Q: one block of ROWS rows for each consumer."""
    ring.wait_empty(visit)
    mbarrier.expect(ring.arrival(visit), CONSUMERS * descriptor.block_type.nbytes)
    for consumer in gl.static_range(CONSUMERS):
        tma.async_copy_global_to_shared(
            descriptor,
            [batch, head, row + consumer * ROWS, 0],
            ring.arrival(visit),
            buffers.index(ring.buffer(visit) * CONSUMERS + consumer),
        )


@gluon.jit
def _produce(inputs, shared, schedule, counter, CONSUMERS: gl.constexpr):
    """Draw tiles and copy their Q, K and V, key blocks from the last to the first."""
    q_tensor, k_tensor, v_tensor = inputs
    buffers, rings, next_tile = shared
    q_buffers, k_buffers, v_buffers = buffers
    q_ring, k_ring, v_ring, tile_ring = rings
    SCALAR: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    tile = gl.program_id(0)
    tile_visit = 0
    key_visit = 0
    while tile < schedule.tiles():
        drawn = gl.num_programs(0) + gl.atomic_add(counter, 1)
        row, batch, head = schedule.place(tile)
        kv_head = head // schedule.heads_per_kv_head
        first, end = schedule.seen_blocks(row, schedule.BLOCK_Q)
        for step in range(end - first):
            key_block = end - 1 - step
            key = key_block * schedule.BLOCK_KV
            _load(k_ring, key_visit, k_tensor, k_buffers, batch, kv_head, key)
            if step == 0:
                _load_queries(q_ring, tile_visit, q_tensor, q_buffers, batch, head, row, CONSUMERS)
            _load(v_ring, key_visit, v_tensor, v_buffers, batch, kv_head, key)
            key_visit += 1
        tile_ring.wait_empty(tile_visit)
        next_tile.index(tile_ring.buffer(tile_visit)).store(gl.full([1], drawn, gl.int32, SCALAR))
        mbarrier.arrive(tile_ring.arrival(tile_visit), count=1)
        tile_visit += 1
        tile = drawn


@gluon.jit
def _skip(
    blocks, visit, k_ring, v_ring, CONSUMER: gl.constexpr, CONSUMERS: gl.constexpr, TURNS: gl.constexpr
):
    """Hand back key blocks that only other consumers see; taking turns all the same keeps them even."""
    for _ in range(blocks):
        _take_turn(CONSUMER, TURNS)
        _pass_turn(CONSUMER, CONSUMERS, TURNS)
        k_ring.wait_full(visit)
        k_ring.release(visit)
        v_ring.wait_full(visit)
        v_ring.release(visit)
        visit += 1
    return visit


@gluon.jit
def _softmax_step(scores, running_max, running_sum, scale_log2):
    """Online softmax of a tile: P, the new maximum and sum, and the factor that rescales what was there."""
    new_max = gl.maximum(running_max, gl.max(scores, axis=1))
    offset = gl.where(new_max == float("-inf"), 0.0, new_max) * scale_log2
    alpha = gl.exp2(running_max * scale_log2 - offset)
    P = gl.exp2(scores * scale_log2 - offset[:, None])
    return P, new_max, running_sum * alpha + gl.sum(P, axis=1), alpha


@gluon.jit
def _consume(
    output, shared, schedule, scale_log2,
    CONSUMER: gl.constexpr, CONSUMERS: gl.constexpr, TURNS: gl.constexpr, OVERLAP: gl.constexpr,
):  # fmt: skip
    """Attention of 64 rows of every tile."""
    out_tensor, lse = output
    buffers, rings, next_tile = shared
    q_buffers, k_buffers, v_buffers = buffers
    q_ring, k_ring, v_ring, tile_ring = rings
    DTYPE: gl.constexpr = q_buffers.dtype
    HEAD_DIM: gl.constexpr = q_buffers.shape[4]
    BLOCK_KV: gl.constexpr = schedule.BLOCK_KV
    SCORES: gl.constexpr = accumulator_layout(BLOCK_KV)
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM)
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=OUT, k_width=2)
    SCORES_ROW: gl.constexpr = gl.SliceLayout(1, SCORES)
    OUT_ROW: gl.constexpr = gl.SliceLayout(1, OUT)

    if CONSUMER == CONSUMERS - 1:
        _pass_turn(CONSUMER, CONSUMERS, TURNS)
    tile = gl.program_id(0)
    tile_visit = 0
    visit = 0
    while tile < schedule.tiles():
        tile_row, batch, head = schedule.place(tile)
        row = tile_row + CONSUMER * ROWS
        rows = row + gl.arange(0, ROWS, layout=SCORES_ROW)
        positions = schedule.position(rows)
        tile_first, tile_end = schedule.seen_blocks(tile_row, schedule.BLOCK_Q)
        first, end = schedule.seen_blocks(row, ROWS)
        whole_first, whole_end = schedule.whole_blocks(row, ROWS)
        no_scores = gl.zeros([ROWS, BLOCK_KV], gl.float32, SCORES)

        visit = _skip(tile_end - end, visit, k_ring, v_ring, CONSUMER, CONSUMERS, TURNS)
        q_ring.wait_full(tile_visit)
        Q_block = q_buffers.index(q_ring.buffer(tile_visit) * CONSUMERS + CONSUMER)
        Q = Q_block.reshape([ROWS, HEAD_DIM])

        k_ring.wait_full(visit)
        K = k_buffers.index(k_ring.buffer(visit)).reshape([BLOCK_KV, HEAD_DIM])
        S = warpgroup_mma(Q, K.permute((1, 0)), no_scores, use_acc=False, is_async=True)
        S = warpgroup_mma_wait(0, deps=[S])
        k_ring.release(visit)
        if (end > whole_end) | (end <= whole_first):
            S = schedule.masked(S, positions, end - 1, SCORES)
        running_max = gl.full([ROWS], float("-inf"), gl.float32, SCORES_ROW)
        running_sum = gl.full([ROWS], 0.0, gl.float32, SCORES_ROW)
        P, running_max, running_sum, alpha = _softmax_step(S, running_max, running_sum, scale_log2)
        P = gl.convert_layout(P.to(DTYPE), WEIGHTS, assert_trivial=True)
        out = gl.zeros([ROWS, HEAD_DIM], gl.float32, OUT)

        if OVERLAP:
            k_ring.wait_full(visit + 1, end - first > 1)
        for step in range(end - first - 1):
            key_block = end - 2 - step
            if not OVERLAP:
                k_ring.wait_full(visit + 1)
            _take_turn(CONSUMER, TURNS)
            K = k_buffers.index(k_ring.buffer(visit + 1)).reshape([BLOCK_KV, HEAD_DIM])
            S = warpgroup_mma(Q, K.permute((1, 0)), no_scores, use_acc=False, is_async=True)
            v_ring.wait_full(visit)
            V = v_buffers.index(v_ring.buffer(visit)).reshape([BLOCK_KV, HEAD_DIM])
            out = warpgroup_mma(P, V, out, is_async=True)
            _pass_turn(CONSUMER, CONSUMERS, TURNS)
            S = warpgroup_mma_wait(1, deps=[S])
            k_ring.release(visit + 1)
            if (key_block >= whole_end) | (key_block < whole_first):
                S = schedule.masked(S, positions, key_block, SCORES)
            weights, running_max, running_sum, alpha = _softmax_step(S, running_max, running_sum, scale_log2)
            if OVERLAP:
                k_ring.wait_full(visit + 2, key_block > first)
            out, P = warpgroup_mma_wait(0, deps=[out, P])
            v_ring.release(visit)
            out = out * gl.convert_layout(alpha, OUT_ROW, assert_trivial=True)[:, None]
            P = gl.convert_layout(weights.to(DTYPE), WEIGHTS, assert_trivial=True)
            visit += 1

        v_ring.wait_full(visit)
        V = v_buffers.index(v_ring.buffer(visit)).reshape([BLOCK_KV, HEAD_DIM])
        out = warpgroup_mma(P, V, out, is_async=True)
        out, P = warpgroup_mma_wait(0, deps=[out, P])
        v_ring.release(visit)
        visit = _skip(first - tile_first, visit + 1, k_ring, v_ring, CONSUMER, CONSUMERS, TURNS)

        inverse = gl.where(running_sum == 0.0, 0.0, 1.0 / running_sum)
        out = out * gl.convert_layout(inverse, OUT_ROW, assert_trivial=True)[:, None]
        Q.store(out.to(DTYPE))
        fence_async_shared()
        tma.async_copy_shared_to_global(out_tensor, [batch, head, row, 0], Q_block)
        row_lse = (running_max * scale_log2 + gl.log2(running_sum)) * LN_2
        lse_rows = lse + (batch * schedule.heads + head) * schedule.seq_q + rows
        gl.store(lse_rows, row_lse, mask=rows < schedule.seq_q)
        tma.store_wait(0)
        barrier_of_warps()
        q_ring.release(tile_visit)

        tile_ring.wait_full(tile_visit)
        drawn = next_tile.index(tile_ring.buffer(tile_visit)).load(gl.BlockedLayout([1], [32], [4], [0]))
        tile = gl.max(drawn, axis=0)
        tile_ring.release(tile_visit)
        tile_visit += 1


@gluon.jit(
    do_not_specialize=[
        "batch_heads", "heads", "heads_per_kv_head", "heads_together",
        "query_blocks", "seq_q", "seq_kv", "window",
    ]
)  # fmt: skip
def attention_kernel(
    q_tensor, k_tensor, v_tensor, out_tensor, lse, counter,
    batch_heads, heads, heads_per_kv_head, heads_together, query_blocks, seq_q, seq_kv, window, scale_log2,
    CAUSAL: gl.constexpr, WINDOWED: gl.constexpr,
    CONSUMERS: gl.constexpr, Q_BUFFERS: gl.constexpr, KV_BUFFERS: gl.constexpr,
    TURNS: gl.constexpr, OVERLAP: gl.constexpr,
    CONSUMER_REGISTERS: gl.constexpr, PRODUCER_REGISTERS: gl.constexpr,
):  # fmt: skip
    """One block of threads: the tiles it draws from `counter`, a zeroed int32 of this launch alone.

    Tensors are descriptors [batch, heads, seq, head_dim] of blocks [1, 1, rows, head_dim]; lse is float32.
    """
    DTYPE: gl.constexpr = q_tensor.dtype
    HEAD_DIM: gl.constexpr = q_tensor.block_type.shape[3]
    BLOCK_KV: gl.constexpr = k_tensor.block_type.shape[2]
    schedule = Schedule(
        batch_heads, heads, heads_per_kv_head, heads_together, query_blocks, seq_q, seq_kv, window,
        CONSUMERS * ROWS, BLOCK_KV, CAUSAL, WINDOWED,
    )  # fmt: skip
    q_buffers = gl.allocate_shared_memory(
        DTYPE, [Q_BUFFERS * CONSUMERS, 1, 1, ROWS, HEAD_DIM], q_tensor.layout
    )
    k_buffers = gl.allocate_shared_memory(DTYPE, [KV_BUFFERS, 1, 1, BLOCK_KV, HEAD_DIM], k_tensor.layout)
    v_buffers = gl.allocate_shared_memory(DTYPE, [KV_BUFFERS, 1, 1, BLOCK_KV, HEAD_DIM], v_tensor.layout)
    next_tile = gl.allocate_shared_memory(gl.int32, [2, 1], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    buffers = (q_buffers, k_buffers, v_buffers)
    rings = (
        make_ring(Q_BUFFERS, CONSUMERS),
        make_ring(KV_BUFFERS, CONSUMERS),
        make_ring(KV_BUFFERS, CONSUMERS),
        make_ring(2, CONSUMERS),
    )
    fence_async_shared()

    inputs = (q_tensor, k_tensor, v_tensor)
    output = (out_tensor, lse)
    shared = (buffers, rings, next_tile)
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (_consume, (output, shared, schedule, scale_log2, 0, CONSUMERS, TURNS, OVERLAP)),
                (_consume, (output, shared, schedule, scale_log2, 1, CONSUMERS, TURNS, OVERLAP)),
                (_produce, (inputs, shared, schedule, counter, CONSUMERS)),
            ],
            [4, 1],
            [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (_consume, (output, shared, schedule, scale_log2, 0, CONSUMERS, TURNS, OVERLAP)),
                (_consume, (output, shared, schedule, scale_log2, 1, CONSUMERS, TURNS, OVERLAP)),
                (_consume, (output, shared, schedule, scale_log2, 2, CONSUMERS, TURNS, OVERLAP)),
                (_produce, (inputs, shared, schedule, counter, CONSUMERS)),
            ],
            [4, 4, 1],
            [CONSUMER_REGISTERS, CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )
