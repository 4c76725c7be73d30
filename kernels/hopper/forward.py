"""FlashAttention-3's forward pass on Hopper, in Gluon: a warp that copies, warp groups that compute.

A block of threads stays on its SM and takes tiles, 64 query rows for each of its consumers, until none is
left. The producer warp copies Q, K and V into shared memory by TMA. Each consumer warp group issues the
scores of key block j together with P V of key block j - 1; its softmax runs under the products of the others.
Source: Shah et al., FlashAttention-3, arXiv 2407.08608, algorithm 2.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from kernels.hopper.buffer_queue import blocks_for, make_queue
from kernels.hopper.consumer import consume
from kernels.hopper.schedule import Schedule, draw, draw_packed, draw_placed, make_tile_blocks, tell_packed
from kernels.hopper.warp_group import ROWS, start


@gluon.jit
def load(queue, visit, descriptor, batch, head, row, PIECES: gl.constexpr = 1, tail=None):
    """Copy rows from `row` on, PIECES of their columns one by one, once this visit's buffer was read.

    tail describes the columns that follow, where a block of all would be of many that are not there: TMA
    sends zeros from the L2 as it sends numbers.
    """
    PARTS: gl.constexpr = queue.blocks.shape[0] // queue.full.shape[0]
    queue.wait_empty(visit)
    TAIL: gl.constexpr = 0 if tail is None else tail.block_type.nbytes
    mbarrier.expect(queue.arrival(visit), PARTS * descriptor.block_type.nbytes + TAIL)
    for part in gl.static_range(PARTS):
        rows = row + part // PIECES * descriptor.block_type.shape[2]
        place = [batch, head, rows, part % PIECES * descriptor.block_type.shape[3]]
        tma.async_copy_global_to_shared(descriptor, place, queue.arrival(visit), queue.block(visit, part))
    if tail is not None:
        place = [batch, head, row, descriptor.block_type.shape[3]]
        room = queue.tails.index(queue.buffer(visit))
        tma.async_copy_global_to_shared(tail, place, queue.arrival(visit), room)


@gluon.jit
def _load_values(queue, visit, descriptor, tail, batch, head, key, TRANSPOSED: gl.constexpr):
    """`load` of the keys from `key` on, which are columns of V where that is TRANSPOSED."""
    if TRANSPOSED:
        arrival = queue.arrival(visit)
        queue.wait_empty(visit)
        mbarrier.expect(arrival, descriptor.block_type.nbytes)
        tma.async_copy_global_to_shared(descriptor, [batch, head, 0, key], arrival, queue.block(visit))
    else:
        load(queue, visit, descriptor, batch, head, key, 1, tail)


@gluon.jit
def produce(inputs, queues, tiles, counter, AHEAD: gl.constexpr, TRANSPOSED: gl.constexpr):
    """Draw tiles and copy their Q, K and V, key blocks from the last to the first.

    Equal tiles are drawn one AHEAD. Of unequal ones the next is drawn when all copies of the one before are
    under way: SMs that took theirs a whole tile before would drift apart, and would not end together.
    """
    q_tensor, k_tensor, v_tensor, k_tail, v_tail = inputs
    queries, keys, values, next_tiles = queues
    tile = tiles.handed(gl.program_id(0))
    if tiles.starts is not None:
        tile, row, batch, head, span = tell_packed(counter, next_tiles, 0, tiles, tile)
    elif tiles.HOW.PLACED:
        place = tiles.place(tile)
    tile_visit = 0
    visit = 0
    while tile < tiles.tiles():
        if tiles.starts is not None:
            schedule = tiles.of(batch, head, span)
            query, first_key = schedule.first_query + row, schedule.first_key
        else:
            if tiles.HOW.PLACED:
                row, batch, head = place
            else:
                row, batch, head = tiles.place(tile)
            schedule, query, first_key = tiles, row, 0
        kv_head = head // schedule.heads_per_kv_head
        before = schedule.before(row)
        first, end = schedule.own_blocks(tile, *schedule.seen_blocks(row, schedule.BLOCK_Q, before))
        key = first_key + (end - 1 - schedule.later(tile)) * schedule.BLOCK_KV - before
        # Q_i, and the first K_j and V_j
        load(keys, visit, k_tensor, batch, kv_head, key, tiles.HOW.PIECES, k_tail)
        load(queries, tile_visit, q_tensor, batch, head, query, tiles.HOW.PIECES)
        _load_values(values, visit, v_tensor, v_tail, batch, kv_head, key, TRANSPOSED)
        if tiles.starts is not None:
            if tiles.HOW.EARLY:
                following = draw_packed(counter, next_tiles, tile_visit + 1, tiles)
        elif AHEAD:
            # before the other copies: a consumer without a row asks before it hands back what others see
            tile = draw(counter, next_tiles, tile_visit, tiles, tile)
        # each other K_j and V_j, once the consumers have released the buffer's stage
        for _ in range(end - first - 1):
            key -= schedule.BLOCK_KV
            visit += 1
            load(keys, visit, k_tensor, batch, kv_head, key, tiles.HOW.PIECES, k_tail)
            _load_values(values, visit, v_tensor, v_tail, batch, kv_head, key, TRANSPOSED)
        if tiles.starts is not None:
            if not tiles.HOW.EARLY:
                following = draw_packed(counter, next_tiles, tile_visit + 1, tiles)
            tile, row, batch, head, span = following
        elif tiles.HOW.PLACED:
            tile, place = draw_placed(counter, next_tiles, tile_visit, tiles)
        elif not AHEAD:
            tile = draw(counter, next_tiles, tile_visit, tiles, tile)
        visit += 1
        tile_visit += 1


KEYS_BARRIER = gl.constexpr(11)  # and the one after it: a buffer of K each
VALUES_BARRIER = gl.constexpr(13)


@gluon.jit(
    do_not_specialize=[
        "batch_heads", "heads_per_kv_head", "heads_together", "query_blocks", "window", "parts",
    ]
)  # fmt: skip
def attention_kernel(
    q_tensor, k_tensor, v_tensor, out_tensor, k_tail, v_tail, lse, counter, blocks, others,
    batch_heads, heads_per_kv_head, heads_together, query_blocks, window, score, parts, beyond,
    HOW: gl.constexpr,
):  # fmt: skip
    """One block of threads: the tiles it draws from `counter`, a zeroed int32 of this launch alone.

    HOW, score's cap and slope, parts (splits, whole, share), beyond, at last out's strides: see `Schedule`.
    Tensors are descriptors [batch, heads, seq, head_dim] of blocks [1, 1, rows, head_dim]; lse is float32.
    k_tail and v_tail, or None: of the columns behind those of k_tensor's and v_tensor's blocks.
    blocks, where TRACED, is int64 [tiles, 3], see `kernels.launch.block_times`. With splits, out_tensor
    points to float32, and has with lse all batches of each part. others, or None: partial, float32 [slots,
    rows of a tile, head_dim], and partial_lse, where pieces leave theirs; sinks, float32 [heads]; slopes;
    out as a pointer, for sequences that end within a tile; starts and key_starts.
    """
    scale_log2, cap, per_slope = score
    splits, whole, share = parts
    partial, partial_lse, sinks, slopes, out, starts, key_starts = others if HOW.OTHERS else (None,) * 7
    ahead, prefix, sequences, out_strides = beyond if HOW.OTHERS else (None,) * 4
    CONSUMERS: gl.constexpr = HOW.CONSUMERS
    TURNS: gl.constexpr = HOW.TURNS
    HELD: gl.constexpr = HOW.HELD
    CAUSAL: gl.constexpr = HOW.CAUSAL
    NAMED: gl.constexpr = HELD or (TURNS and not CAUSAL)
    BLOCK_KV: gl.constexpr = k_tensor.block_type.shape[2]
    schedule = Schedule(
        batch_heads, q_tensor.shape[1], heads_per_kv_head, heads_together, query_blocks,
        q_tensor.shape[2], k_tensor.shape[2], window, splits, whole, share, None, None,
        ahead, prefix, cap, slopes, per_slope, None, starts, key_starts, sequences, None, None,
        CONSUMERS * ROWS, BLOCK_KV, HOW,
    )  # fmt: skip
    q_blocks = blocks_for(q_tensor, HOW.Q_BUFFERS * CONSUMERS * HOW.PIECES)
    k_blocks = blocks_for(k_tensor, HOW.KV_BUFFERS * HOW.PIECES)
    v_blocks = blocks_for(v_tensor, HOW.KV_BUFFERS)
    k_tails, v_tails = None, None
    if k_tail is not None:
        k_tails, v_tails = blocks_for(k_tail, HOW.KV_BUFFERS), blocks_for(v_tail, HOW.KV_BUFFERS)
    next_tiles = make_tile_blocks(8 if starts is not None else (4 if HOW.PLACED else 1))
    queues = (
        make_queue(q_blocks, HOW.Q_BUFFERS, CONSUMERS),
        # by name where Q is held: elsewhere that was up to 2% slower, but for V where all take equal turns
        make_queue(k_blocks, HOW.KV_BUFFERS, CONSUMERS, KEYS_BARRIER if HELD else 0, k_tails),
        make_queue(v_blocks, HOW.KV_BUFFERS, CONSUMERS, VALUES_BARRIER if NAMED else 0, v_tails),
        make_queue(next_tiles, 2, CONSUMERS),
    )
    fence_async_shared()

    stages = q_blocks
    if HOW.STAGED:
        stages = blocks_for(out_tensor, CONSUMERS)
    if starts is None:
        output = (out_tensor, lse, stages, partial, partial_lse)
    else:
        output = (out_tensor, lse, stages, out, out_strides)
    inputs = q_tensor, k_tensor, v_tensor, k_tail, v_tail
    start(
        consume, (output, queues, schedule, scale_log2, blocks, sinks),
        [(produce, (inputs, queues, schedule, counter, not CAUSAL, False))], HOW,
    )  # fmt: skip
