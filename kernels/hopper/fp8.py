"""FlashAttention-3's forward pass on numbers of 8 bits: flash3's kernel, with e4m3 operands and their scales.

Q, K and V come as `kernels.algorithms.fp8.quantise` leaves them. A block's scores are multiplied by the
scales of its queries and keys inside the exponential. The scales of the values are inside it too, where they
cost no instruction a number either: O changes only with the reference.
Source: Shah et al., FlashAttention-3, arXiv 2407.08608, section 3.3.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from kernels.hopper.buffer_queue import blocks_for, make_queue
from kernels.hopper.consumer import skip
from kernels.hopper.forward import produce
from kernels.hopper.fp8_softmax import HEADROOM, as_operand, in_place, new_reference, rescaled, softmax_step
from kernels.hopper.schedule import Schedule, make_tile_blocks, next_tile
from kernels.hopper.warp_group import LN_2, ROWS, Turns, accumulator_layout, barrier_of_warps, beside, start


@gluon.jit
def _start_scores(Q, keys, visit):
    """Issue Q K^T of this visit's key block."""
    BLOCK_KV: gl.constexpr = keys.blocks.shape[3]
    K = keys.block(visit).reshape([BLOCK_KV, keys.blocks.shape[4]])
    nothing = gl.zeros([ROWS, BLOCK_KV], gl.float32, accumulator_layout(BLOCK_KV, 8))
    return warpgroup_mma(Q, K.permute((1, 0)), nothing, use_acc=False, is_async=True)


@gluon.jit
def _start_output(P, values, visit, out):
    """Issue out + P V of this visit's key block."""
    HEAD_DIM: gl.constexpr = values.blocks.shape[3]
    V = values.block(visit).reshape([HEAD_DIM, values.blocks.shape[4]])
    P = as_operand(P, accumulator_layout(HEAD_DIM, 8))
    return warpgroup_mma(P, V.permute((1, 0)), out, is_async=True)


@gluon.jit
def _counts_of(schedule):
    """Blocks of keys and of rows of a head that have scales, and key heads."""
    key_blocks = (schedule.seq_kv + schedule.BLOCK_KV - 1) // schedule.BLOCK_KV
    kv_heads = schedule.heads // schedule.heads_per_kv_head
    row_blocks = (schedule.seq_q + ROWS - 1) // ROWS
    return key_blocks, row_blocks, kv_heads


@gluon.jit
def _scales_of(scales, scale_log2, row, batch, head, counts, schedule):
    """What makes logits, in units of log2, of the rows' scores; their head's scales of keys and of values."""
    q_scales, k_scales, v_scales = scales
    key_blocks, row_blocks, kv_heads = counts
    row_block = gl.minimum(row // ROWS, row_blocks - 1)
    q_to_log2 = scale_log2 * gl.load(q_scales + (batch * schedule.heads + head) * row_blocks + row_block)
    first_block = (batch * kv_heads + head // schedule.heads_per_kv_head) * key_blocks
    return q_to_log2, k_scales + first_block, v_scales + first_block


@gluon.jit
def _visit_others(last, first, P, state, scales, Q, keys, values, schedule, view, turns):
    """Key blocks last - 1 down to first, P of the last one given and its P V still to be issued.

    P V of a block is waited for before the exponentials of the next: what rounds and adds them runs among
    them, and O is rescaled under the next product.
    """
    SCORES: gl.constexpr = accumulator_layout(schedule.BLOCK_KV, 8)
    OUT: gl.constexpr = accumulator_layout(values.blocks.shape[3], 8)
    out, reference, top, running_sum, visit = state
    alpha = gl.full([ROWS], 1.0, gl.float32, gl.SliceLayout(1, SCORES))
    q_to_log2, k_scales, v_scales = scales
    next_k_scale = gl.load(k_scales + gl.maximum(last - 1, 0))  # asked for a visit before it is needed
    next_v_scale = gl.load(v_scales + gl.maximum(last - 1, 0))
    for step in range(last - first):
        block = last - 1 - step
        to_log2 = q_to_log2 * next_k_scale
        v_scale = next_v_scale
        next_k_scale = gl.load(k_scales + gl.maximum(block - 1, 0))
        next_v_scale = gl.load(v_scales + gl.maximum(block - 1, 0))
        keys.wait_full(visit + 1)
        turns.take()
        S = _start_scores(Q, keys, visit + 1)
        out = rescaled(out, alpha, OUT)
        out = _start_output(P, values, visit, out)
        turns.pass_on()
        S = warpgroup_mma_wait(1, deps=[S])
        keys.release(visit + 1)
        S = schedule.masked(S, view, block, False, SCORES)
        new, top = new_reference(S, reference, top, to_log2, v_scale)
        new = in_place(new)
        values.wait_full(visit + 1)  # ptxas moves nothing past it
        out, P = warpgroup_mma_wait(0, deps=[out, P])
        new = in_place(new)
        values.release(visit)
        P, running_sum, alpha = softmax_step(S, new, reference, running_sum, to_log2, v_scale)
        reference = new
        visit += 1
    return P, out * beside(alpha, OUT), reference, running_sum, visit


@gluon.jit
def _store(state, out_block, output, place, row, schedule):
    """Divide by the row sums, and store the output, by way of shared memory, and the log-sum-exp."""
    out, reference, running_sum = state
    out_tensor, lse = output
    batch, head = place
    HEAD_DIM: gl.constexpr = out_block.shape[3]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM, 8)
    out = out * beside(gl.where(running_sum == 0.0, 0.0, 1.0 / running_sum), OUT)
    tma.store_wait(0)  # of the tile before
    barrier_of_warps()
    out_block.reshape([ROWS, HEAD_DIM]).store(out.to(out_block.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(out_tensor, [batch, head, row, 0], out_block)
    rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, accumulator_layout(schedule.BLOCK_KV, 8)))
    row_lse = (reference - HEADROOM + gl.log2(running_sum)) * LN_2
    lse_rows = lse + (batch * schedule.heads + head) * schedule.seq_q + rows
    gl.store(lse_rows, row_lse, mask=rows < schedule.seq_q)


@gluon.jit
def consume(output, out_blocks, queues, schedule, scale_log2, scales, CONSUMER: gl.constexpr):
    """Attention of 64 rows of every tile."""
    queries, keys, values, next_tiles = queues
    HEAD_DIM: gl.constexpr = values.blocks.shape[3]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM, 8)
    SCORES: gl.constexpr = accumulator_layout(schedule.BLOCK_KV, 8)
    SCORES_ROW: gl.constexpr = gl.SliceLayout(1, SCORES)
    out_block = out_blocks.index(CONSUMER)
    counts = _counts_of(schedule)
    turns = Turns(CONSUMER, schedule.HOW.CONSUMERS, schedule.HOW.TURNS)
    turns.begin()
    tile = gl.program_id(0)
    tile_row, batch, head = schedule.place(tile)
    tile_visit = 0
    visit = 0
    while tile < schedule.tiles():
        row = tile_row + CONSUMER * ROWS
        head_scales = _scales_of(scales, scale_log2, row, batch, head, counts, schedule)
        q_to_log2, k_scales, v_scales = head_scales
        positions = schedule.position(row + gl.arange(0, ROWS, layout=SCORES_ROW))
        tile_first, tile_end = schedule.seen_blocks(tile_row, schedule.BLOCK_Q)
        first, end = schedule.seen_blocks(row, ROWS)
        view = positions, schedule.whole_blocks(row, ROWS), 0
        to_log2 = q_to_log2 * gl.load(k_scales + (end - 1))
        v_scale = gl.load(v_scales + (end - 1))
        visit = skip(tile_end - end, visit, keys, values, turns)
        queries.wait_full(tile_visit)
        Q = queries.block(tile_visit, CONSUMER).reshape([ROWS, HEAD_DIM])
        out = gl.zeros([ROWS, HEAD_DIM], gl.float32, OUT)
        unseen = gl.full([ROWS], float("-inf"), gl.float32, SCORES_ROW)
        keys.wait_full(visit)
        S = _start_scores(Q, keys, visit)
        S = warpgroup_mma_wait(0, deps=[S])
        keys.release(visit)
        S = schedule.masked(S, view, end - 1, True, SCORES)
        reference, top = new_reference(S, unseen, unseen, to_log2, v_scale)
        reference = in_place(reference)
        values.wait_full(visit)
        P, running_sum, _ = softmax_step(S, reference, unseen, 0.0, to_log2, v_scale)
        P, out, reference, running_sum, visit = _visit_others(
            end - 1, first, P, (out, reference, top, running_sum, visit), head_scales, Q, keys, values,
            schedule, view, turns,
        )  # fmt: skip
        queries.release(tile_visit)
        out = _start_output(P, values, visit, out)
        place = batch, head
        tile = next_tile(next_tiles, tile_visit)
        tile_row, batch, head = schedule.place(tile)
        out = warpgroup_mma_wait(0, deps=[out])
        values.release(visit)
        visit = skip(first - tile_first, visit + 1, keys, values, turns)
        running_sum = gl.convert_layout(gl.sum(running_sum, axis=1), SCORES_ROW, assert_trivial=True)
        _store((out, reference, running_sum), out_block, output, place, row, schedule)
        tile_visit += 1
    tma.store_wait(0)


@gluon.jit(
    do_not_specialize=[
        "batch_heads", "heads", "heads_per_kv_head", "heads_together", "query_blocks", "seq_q", "seq_kv",
    ]
)  # fmt: skip
def attention_fp8_kernel(
    q_tensor, k_tensor, v_tensor, out_tensor, lse, q_scales, k_scales, v_scales, counter,
    batch_heads, heads, heads_per_kv_head, heads_together, query_blocks, seq_q, seq_kv, scale_log2,
    HOW: gl.constexpr,
):  # fmt: skip
    """One block of threads: the tiles it draws from `counter`, a zeroed int32 of this launch alone.

    q_tensor and k_tensor are descriptors [batch, heads, seq, head_dim] of e4m3, v_tensor of V transposed
    [batch, kv_heads, head_dim, seq]; out_tensor's is 16-bit, lse float32. Scales are float32 [batch, heads,
    blocks]: of 64 queries, of BLOCK_KV keys and values.
    """
    CONSUMERS: gl.constexpr = HOW.CONSUMERS
    HEAD_DIM: gl.constexpr = q_tensor.block_type.shape[3]
    BLOCK_KV: gl.constexpr = k_tensor.block_type.shape[2]
    schedule = Schedule(
        batch_heads, heads, heads_per_kv_head, heads_together, query_blocks, seq_q, seq_kv, seq_kv,
        None, None, None, None, None,
        None, None, None, None, None, None, None, None, None, None, None, CONSUMERS * ROWS, BLOCK_KV, HOW,
    )  # fmt: skip
    q_blocks = blocks_for(q_tensor, HOW.Q_BUFFERS * CONSUMERS)
    k_blocks = blocks_for(k_tensor, HOW.KV_BUFFERS)
    v_blocks = blocks_for(v_tensor, HOW.KV_BUFFERS)
    out_blocks = gl.allocate_shared_memory(
        out_tensor.dtype, [CONSUMERS, 1, 1, ROWS, HEAD_DIM], out_tensor.layout
    )
    next_tiles = make_tile_blocks(1)
    queues = (
        make_queue(q_blocks, HOW.Q_BUFFERS, CONSUMERS),
        make_queue(k_blocks, HOW.KV_BUFFERS, CONSUMERS),
        make_queue(v_blocks, HOW.KV_BUFFERS, CONSUMERS),
        make_queue(next_tiles, 2, CONSUMERS),
    )
    fence_async_shared()

    scales = (q_scales, k_scales, v_scales)
    start(
        consume, ((out_tensor, lse), out_blocks, queues, schedule, scale_log2, scales),
        [(produce, ((q_tensor, k_tensor, v_tensor, None, None), queues, schedule, counter, True, True))], HOW,
    )  # fmt: skip
