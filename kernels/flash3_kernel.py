"""FlashAttention-3's forward pass on Hopper, in Gluon: a warp that copies, warp groups that compute.

A block of threads stays on its SM and takes tiles, 64 query rows for each of its consumers, until none is
left. The producer warp copies Q, K and V into shared memory by TMA. Each consumer warp group issues the
scores of key block j together with P V of key block j - 1; its softmax runs under the products of the others.
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

from kernels.flash3_schedule import WARP_GROUP, Schedule, make_ring, named_barrier

ROWS = gl.constexpr(64)  # query rows of a warp group: what one wgmma takes
FIRST_TURN_BARRIER = gl.constexpr(8)  # named barriers 8, 9, ...: Triton itself takes the lowest
KEYS_BARRIER = gl.constexpr(11)  # and the one after it: a buffer of K each
VALUES_BARRIER = gl.constexpr(13)
LN_2 = gl.constexpr(0.6931471805599453)

# the name of the barrier of a block of threads (inside a partition: of its warps) changed in Triton 3.7
barrier_of_warps = getattr(gl, "barrier", None) or gl.thread_barrier


@gluon.constexpr_function
def accumulator_layout(columns):
    return gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, columns, 16])


@gluon.constexpr_function
def doublings(start, end):
    """How often `start` has to be doubled for `end`; 0 for 0."""
    return (end // start).bit_length() - 1 if start else 0


@gluon.constexpr_function
def rounding_asm(dtype):
    """PTX that rounds two float32 into one register of two 16-bit numbers, the first in its lower half."""
    return f"cvt.rn.{'f16x2' if dtype == gl.float16 else 'bf16x2'}.f32 $0, $2, $1;"


@gluon.jit
def _take_turn(CONSUMER: gl.constexpr, TURNS: gl.constexpr):
    if TURNS:
        named_barrier("sync", FIRST_TURN_BARRIER + CONSUMER, 2 * WARP_GROUP)


@gluon.jit
def _pass_turn(CONSUMER: gl.constexpr, CONSUMERS: gl.constexpr, TURNS: gl.constexpr):
    if TURNS:
        named_barrier("arrive", FIRST_TURN_BARRIER + (CONSUMER + 1) % CONSUMERS, 2 * WARP_GROUP)


@gluon.jit
def _now(TRACED: gl.constexpr):
    """Nanoseconds of the GPU's clock; 0 where nothing is traced."""
    if TRACED:
        now = gl.inline_asm_elementwise(
            "mov.u64 $0, %globaltimer;", "=l", [], dtype=gl.int64, is_pure=False, pack=1
        )
    else:
        now = 0
    return now


@gluon.jit
def _store_times(blocks, tile, start, TRACED: gl.constexpr):
    """Write down a tile's SM, start and end, see `kernels.trace`."""
    if TRACED:
        end = _now(TRACED)
        sm = gl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=gl.int32, is_pure=False, pack=1)
        gl.store(blocks + tile * 3, sm.to(gl.int64))
        gl.store(blocks + tile * 3 + 1, start)
        gl.store(blocks + tile * 3 + 2, end)


@gluon.jit
def _load(ring, visit, descriptor, batch, head, row):
    """Copy the rows from `row` on that fill this visit's buffer, once its last reader is done."""
    PARTS: gl.constexpr = ring.PARTS
    ring.wait_empty(visit)
    mbarrier.expect(ring.arrival(visit), PARTS * descriptor.block_type.nbytes)
    for part in gl.static_range(PARTS):
        part_row = row + part * descriptor.block_type.shape[2]
        tma.async_copy_global_to_shared(
            descriptor, [batch, head, part_row, 0], ring.arrival(visit), ring.block(visit, part)
        )


@gluon.jit
def _draw(counter, next_tiles, tile_visit):
    """The tile to come after this one, which the consumers are told as well."""
    drawn = gl.num_programs(0) + gl.atomic_add(counter, 1, sem="relaxed")
    _tell(next_tiles, tile_visit, (drawn,), 1)
    return drawn


@gluon.jit
def _draw_placed(counter, next_tiles, tile_visit, schedule):
    """As `_draw`, with the tile's place: the consumers need not divide between two tiles."""
    drawn = gl.num_programs(0) + gl.atomic_add(counter, 1, sem="relaxed")
    row, batch, head = schedule.place(drawn)
    _tell(next_tiles, tile_visit, (drawn, row, batch, head), 4)
    return drawn, (row, batch, head)


@gluon.jit
def _tell(next_tiles, tile_visit, numbers, COUNT: gl.constexpr):
    SCALAR: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    next_tiles.wait_empty(tile_visit)
    for part in gl.static_range(COUNT):
        next_tiles.block(tile_visit, part).store(gl.full([1], numbers[part], gl.int32, SCALAR))
    mbarrier.arrive(next_tiles.arrival(tile_visit), count=1)


@gluon.jit
def _produce(inputs, rings, schedule, counter):
    """Draw tiles and copy their Q, K and V, key blocks from the last to the first.

    Equal tiles are drawn one ahead. Of unequal ones the next is drawn when all copies of the one before are
    under way: SMs that took theirs a whole tile before would drift apart, and would not end together.
    """
    q_tensor, k_tensor, v_tensor = inputs
    queries, keys, values, next_tiles = rings
    tile = gl.program_id(0)
    if schedule.SHORT_WAITS:
        place = schedule.place(tile)
    tile_visit = 0
    visit = 0
    while tile < schedule.tiles():
        if schedule.SHORT_WAITS:
            row, batch, head = place
        else:
            row, batch, head = schedule.place(tile)
        kv_head = head // schedule.heads_per_kv_head
        first, end = schedule.seen_blocks(row, schedule.BLOCK_Q)
        key = (end - 1) * schedule.BLOCK_KV
        _load(keys, visit, k_tensor, batch, kv_head, key)
        _load(queries, tile_visit, q_tensor, batch, head, row)
        _load(values, visit, v_tensor, batch, kv_head, key)
        if not schedule.CAUSAL:
            # before the other copies: a consumer without a row asks before it hands back what others see
            tile = _draw(counter, next_tiles, tile_visit)
        for _ in range(end - first - 1):
            key -= schedule.BLOCK_KV
            visit += 1
            _load(keys, visit, k_tensor, batch, kv_head, key)
            _load(values, visit, v_tensor, batch, kv_head, key)
        if schedule.SHORT_WAITS:
            tile, place = _draw_placed(counter, next_tiles, tile_visit, schedule)
        elif schedule.CAUSAL:
            tile = _draw(counter, next_tiles, tile_visit)
        visit += 1
        tile_visit += 1


@gluon.jit
def _told(next_tiles, tile_visit, part: gl.constexpr):
    told = next_tiles.block(tile_visit, part).load(gl.BlockedLayout([1], [32], [4], [0]))
    return gl.max(told, axis=0)


@gluon.jit
def _next_tile(next_tiles, tile_visit):
    """The tile that the producer drew to come after this one."""
    next_tiles.wait_full(tile_visit)
    tile = _told(next_tiles, tile_visit, 0)
    next_tiles.release(tile_visit)
    return tile


@gluon.jit
def _next_placed(next_tiles, tile_visit):
    """The tile that the producer drew to come after this one; its first row, batch and head."""
    next_tiles.wait_full(tile_visit)
    tile = _told(next_tiles, tile_visit, 0)
    row = _told(next_tiles, tile_visit, 1)
    batch = _told(next_tiles, tile_visit, 2)
    head = _told(next_tiles, tile_visit, 3)
    next_tiles.release(tile_visit)
    return tile, row, batch, head


@gluon.jit
def _skip(blocks, visit, keys, values, CONSUMER: gl.constexpr, CONSUMERS: gl.constexpr, TURNS: gl.constexpr):
    """Hand back key blocks that only other consumers see; taking turns all the same keeps them even."""
    for _ in range(blocks):
        _take_turn(CONSUMER, TURNS)
        _pass_turn(CONSUMER, CONSUMERS, TURNS)
        keys.wait_full(visit)
        keys.release(visit)
        values.wait_full(visit)
        values.release(visit)
        visit += 1
    return visit


@gluon.jit
def _held(Q, HELD: gl.constexpr, BLOCK_KV: gl.constexpr):
    """The first HELD columns of Q in the registers from which wgmma takes its left operand; 0 for none."""
    if HELD:
        OPERAND: gl.constexpr = gl.DotOperandLayout(
            operand_index=0, parent=accumulator_layout(BLOCK_KV), k_width=2
        )
        held = Q.slice(0, HELD, dim=1).load(OPERAND)
    else:
        held = 0
    return held


@gluon.jit
def _start_scores(Q, held, keys, visit, HELD: gl.constexpr, KEYS: gl.constexpr):
    """Issue Q K^T of the first KEYS of this visit's keys; the first HELD columns of Q are in registers."""
    HEAD_DIM: gl.constexpr = keys.blocks.shape[4]
    K = keys.block(visit).reshape([keys.blocks.shape[3], HEAD_DIM]).slice(0, KEYS, dim=0)
    S = gl.zeros([ROWS, KEYS], gl.float32, accumulator_layout(KEYS))
    if HELD == 0:
        S = warpgroup_mma(Q, K.permute((1, 0)), S, use_acc=False, is_async=True)
    else:
        S = warpgroup_mma(held, K.slice(0, HELD, dim=1).permute((1, 0)), S, use_acc=False, is_async=True)
        for part in gl.static_range(doublings(HELD, HEAD_DIM)):
            others = K.slice(HELD << part, HELD << part, dim=1).permute((1, 0))
            S = warpgroup_mma(Q.slice(HELD << part, HELD << part, dim=1), others, S, is_async=True)
    return S


@gluon.jit
def _start_output(P, values, visit, out):
    """Issue out + P V of this visit's key block."""
    V = values.block(visit).reshape([values.blocks.shape[3], values.blocks.shape[4]])
    return warpgroup_mma(P, V, out, is_async=True)


@gluon.jit
def _row_max(S, CHAINS: gl.constexpr):
    """The largest of each row. CHAINS: a thread compares four numbers at a time, not each with the last."""
    SCORES_ROW: gl.constexpr = gl.SliceLayout(1, accumulator_layout(S.shape[1]))
    if CHAINS:
        chains = gl.max(S.reshape([ROWS, S.shape[1] // 16, 16]), axis=1)
        largest = gl.convert_layout(gl.max(chains, axis=1), SCORES_ROW, assert_trivial=True)
    else:
        largest = gl.max(S, axis=1)
    return largest


@gluon.jit
def _softmax_step(S, running_max, running_sum, scale_log2, CHAINS: gl.constexpr):
    """Online softmax of a block: P, the new maximum and sum, and the factor that rescales what was there."""
    new_max = gl.maximum(running_max, _row_max(S, CHAINS))
    offset = gl.where(new_max == float("-inf"), 0.0, new_max * scale_log2)  # a row may have seen no key yet
    alpha = gl.exp2(running_max * scale_log2 - offset)
    P = gl.exp2(S * scale_log2 - offset[:, None])
    return P, new_max, running_sum * alpha + gl.sum(P, axis=1), alpha


@gluon.jit
def _as_operand(P, DTYPE: gl.constexpr, OUT: gl.constexpr):
    """P rounded, in the registers where wgmma takes its left operand: nothing moves between threads."""
    OPERAND: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=OUT, k_width=2)
    return gl.convert_layout(P.to(DTYPE), OPERAND, assert_trivial=True)


@gluon.jit
def _of_block(first, FIRST_KEYS: gl.constexpr, BLOCK_KV: gl.constexpr):
    """The first FIRST_KEYS weights of a key block with 0 for the others."""
    if FIRST_KEYS < BLOCK_KV:
        both = gl.join(first, gl.zeros_like(first))
        weights = both.permute((0, 2, 1)).reshape([ROWS, BLOCK_KV])
    else:
        weights = first
    return weights


@gluon.jit
def _weights(P, Q, OUT: gl.constexpr, PAIRED: gl.constexpr):
    """P rounded as Q is, as wgmma's left operand.

    PAIRED rounds two at a time: by itself ptxas may pair them the wrong way round, and turn each in the loop.
    """
    if PAIRED:
        ASM: gl.constexpr = rounding_asm(Q.dtype)
        P = gl.inline_asm_elementwise(ASM, "=r,r,r", [P], dtype=Q.dtype, is_pure=True, pack=2)
    return _as_operand(P, Q.dtype, OUT)


@gluon.jit
def _beside_output(column, OUT: gl.constexpr):
    """One number a row as a column [ROWS, 1] that multiplies the output's rows."""
    return gl.convert_layout(column, gl.SliceLayout(1, OUT), assert_trivial=True)[:, None]


@gluon.jit
def _visit_others(
    last, first, P, state, Q, held, keys, values, schedule, whole, positions, scale_log2,
    CONSUMER: gl.constexpr, CONSUMERS: gl.constexpr, TURNS: gl.constexpr, HELD: gl.constexpr,
):  # fmt: skip
    """Key blocks last - 1 down to first, P of the last one given and its P V still to be issued.

    The scores of each are issued together with P V of the one before. The last P V is left to issue: returns
    P with the state.
    """
    SCORES: gl.constexpr = accumulator_layout(schedule.BLOCK_KV)
    OUT: gl.constexpr = accumulator_layout(values.blocks.shape[4])
    out, running_max, running_sum, visit = state
    for step in range(last - first):
        keys.wait_full(visit + 1)
        _take_turn(CONSUMER, TURNS)
        S = _start_scores(Q, held, keys, visit + 1, HELD, schedule.BLOCK_KV)
        values.wait_full(visit)
        out = _start_output(P, values, visit, out)
        _pass_turn(CONSUMER, CONSUMERS, TURNS)
        S = warpgroup_mma_wait(1, deps=[S])
        keys.release(visit + 1)
        S = schedule.masked(S, positions, last - 1 - step, whole, False, SCORES, CONSUMER)
        weights, running_max, running_sum, alpha = _softmax_step(
            S, running_max, running_sum, scale_log2, schedule.CHAINS
        )
        # ptxas moves this wait to before the softmax; held back here by force, all was 5% slower
        out, P = warpgroup_mma_wait(0, deps=[out, P])
        values.release(visit)
        out = out * _beside_output(alpha, OUT)
        P = _weights(weights, Q, OUT, schedule.PAIRED)
        visit += 1
    return P, out, running_max, running_sum, visit


@gluon.jit
def _store(state, Q_block, output, place, row, schedule, scale_log2):
    """Divide by the row sums, and store the output, by way of Q's shared memory, and the log-sum-exp."""
    out, running_max, running_sum = state
    out_tensor, lse = output
    batch, head = place
    HEAD_DIM: gl.constexpr = Q_block.shape[3]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM)
    out = out * _beside_output(gl.where(running_sum == 0.0, 0.0, 1.0 / running_sum), OUT)
    Q_block.reshape([ROWS, HEAD_DIM]).store(out.to(Q_block.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(out_tensor, [batch, head, row, 0], Q_block)
    rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, accumulator_layout(schedule.BLOCK_KV)))
    row_lse = (running_max * scale_log2 + gl.log2(running_sum)) * LN_2
    lse_rows = lse + (batch * schedule.heads + head) * schedule.seq_q + rows
    gl.store(lse_rows, row_lse, mask=rows < schedule.seq_q)


@gluon.jit
def _hand_back(queries, tile_visit):
    """Give Q's shared memory back to the producer, once the output that leaves by way of it has left."""
    tma.store_wait(0)
    barrier_of_warps()
    queries.release(tile_visit)


@gluon.jit
def _consume(
    output, rings, tiles, scale_log2, blocks,
    CONSUMER: gl.constexpr, CONSUMERS: gl.constexpr, TURNS: gl.constexpr, HELD: gl.constexpr,
    TRACED: gl.constexpr,
):  # fmt: skip
    """Attention of 64 rows of every tile; a trace has the first consumer's times for the tile's."""
    queries, keys, values, next_tiles = rings
    HEAD_DIM: gl.constexpr = values.blocks.shape[4]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM)
    SCORES: gl.constexpr = accumulator_layout(tiles.BLOCK_KV)
    SCORES_ROW: gl.constexpr = gl.SliceLayout(1, SCORES)
    LATE: gl.constexpr = queries.full.shape[0] > 1  # the next tile starts while this one's output leaves
    FIRST_KEYS: gl.constexpr = tiles.first_keys(CONSUMER)
    FIRST: gl.constexpr = accumulator_layout(FIRST_KEYS)

    if CONSUMER == CONSUMERS - 1:
        _pass_turn(CONSUMER, CONSUMERS, TURNS)
    tile = gl.program_id(0)
    if not tiles.EDGES:
        tile_row, batch, head = tiles.place(tile)
    tile_visit = 0
    visit = 0
    while tile < tiles.tiles():
        traced_tile, began = tile, _now(TRACED)
        if tiles.EDGES:  # once, as shorter code is faster there
            tile_row, batch, head = tiles.place(tile)
        schedule = tiles.of(batch)
        row = tile_row + CONSUMER * ROWS
        positions = schedule.position(row + gl.arange(0, ROWS, layout=SCORES_ROW))
        tile_first, tile_end = schedule.seen_blocks(tile_row, schedule.BLOCK_Q)
        if schedule.EDGES:  # each sees a part of all
            first, end = tile_first, tile_end
        else:
            first, end = schedule.seen_blocks(row, ROWS)
        whole = schedule.whole_blocks(row, ROWS)
        if not schedule.EDGES:
            visit = _skip(tile_end - end, visit, keys, values, CONSUMER, CONSUMERS, TURNS)
        queries.wait_full(tile_visit)
        Q_block = queries.block(tile_visit, CONSUMER)
        Q = Q_block.reshape([ROWS, HEAD_DIM])
        out = gl.zeros([ROWS, HEAD_DIM], gl.float32, OUT)
        running_max = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, FIRST))
        running_sum = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, FIRST))
        keys.wait_full(visit)
        held = _held(Q, HELD, schedule.BLOCK_KV)
        S = _start_scores(Q, held, keys, visit, HELD, FIRST_KEYS)
        if LATE:  # noqa: SIM102 (known when compiling, what follows is not)
            if tile_visit > 0:
                _hand_back(queries, tile_visit - 1)
        S = warpgroup_mma_wait(0, deps=[S])
        keys.release(visit)
        tiles.clean(values, visit, schedule, end - 1)
        S = schedule.masked(S, positions, end - 1, whole, True, FIRST, CONSUMER)
        weights, running_max, running_sum, _ = _softmax_step(
            S, running_max, running_sum, scale_log2, schedule.CHAINS
        )
        running_max = gl.convert_layout(running_max, SCORES_ROW, assert_trivial=True)
        running_sum = gl.convert_layout(running_sum, SCORES_ROW, assert_trivial=True)
        P = _weights(_of_block(weights, FIRST_KEYS, schedule.BLOCK_KV), Q, OUT, schedule.PAIRED)
        P, out, running_max, running_sum, visit = _visit_others(
            end - 1, first, P, (out, running_max, running_sum, visit), Q, held, keys, values, schedule, whole,
            positions, scale_log2, CONSUMER, CONSUMERS, TURNS, HELD,
        )  # fmt: skip
        values.wait_full(visit)
        out = _start_output(P, values, visit, out)
        place = batch, head
        if not schedule.CAUSAL:
            tile = _next_tile(next_tiles, tile_visit)
            tile_row, batch, head = tiles.place(tile)
        out, P = warpgroup_mma_wait(0, deps=[out, P])
        values.release(visit)
        visit += 1
        if not schedule.EDGES:
            visit = _skip(first - tile_first, visit, keys, values, CONSUMER, CONSUMERS, TURNS)
        if schedule.CAUSAL:  # drawn late, so asked for once all is handed back
            if schedule.SHORT_WAITS:
                tile, tile_row, batch, head = _next_placed(next_tiles, tile_visit)
            else:
                tile = _next_tile(next_tiles, tile_visit)
                if not schedule.EDGES:
                    tile_row, batch, head = tiles.place(tile)
        _store((out, running_max, running_sum), Q_block, output, place, row, schedule, scale_log2)
        if CONSUMER == 0:
            _store_times(blocks, traced_tile, began, TRACED)
        if not LATE:
            _hand_back(queries, tile_visit)
        tile_visit += 1
    tma.store_wait(0)


@gluon.jit(
    do_not_specialize=[
        "batch_heads", "heads", "heads_per_kv_head", "heads_together",
        "query_blocks", "seq_q", "seq_kv", "window",
    ]
)  # fmt: skip
def attention_kernel(
    q_tensor, k_tensor, v_tensor, out_tensor, lse, counter, blocks,
    batch_heads, heads, heads_per_kv_head, heads_together, query_blocks, seq_q, seq_kv, window, scale_log2,
    CAUSAL: gl.constexpr, WINDOWED: gl.constexpr, ALIGNED: gl.constexpr, EDGES: gl.constexpr,
    HALF: gl.constexpr, WIDE: gl.constexpr, PAIRED: gl.constexpr, CHAINS: gl.constexpr,
    SHORT_WAITS: gl.constexpr,
    CONSUMERS: gl.constexpr, Q_BUFFERS: gl.constexpr, KV_BUFFERS: gl.constexpr, TURNS: gl.constexpr,
    HELD: gl.constexpr,
    CONSUMER_REGISTERS: gl.constexpr, PRODUCER_REGISTERS: gl.constexpr, TRACED: gl.constexpr,
):  # fmt: skip
    """One block of threads: the tiles it draws from `counter`, a zeroed int32 of this launch alone.

    Tensors are descriptors [batch, heads, seq, head_dim] of blocks [1, 1, rows, head_dim]; lse is float32.
    blocks, where TRACED, is int64 [tiles, 3] to write them down in, see `kernels.trace`.
    """
    DTYPE: gl.constexpr = q_tensor.dtype
    HEAD_DIM: gl.constexpr = q_tensor.block_type.shape[3]
    BLOCK_KV: gl.constexpr = k_tensor.block_type.shape[2]
    schedule = Schedule(
        batch_heads, heads, heads_per_kv_head, heads_together, query_blocks, seq_q, seq_kv, window,
        CONSUMERS * ROWS, BLOCK_KV, CAUSAL, WINDOWED, ALIGNED, EDGES, HALF, WIDE, PAIRED, CHAINS,
        SHORT_WAITS,
    )  # fmt: skip
    q_blocks = gl.allocate_shared_memory(
        DTYPE, [Q_BUFFERS * CONSUMERS, 1, 1, ROWS, HEAD_DIM], q_tensor.layout
    )
    k_blocks = gl.allocate_shared_memory(DTYPE, [KV_BUFFERS, 1, 1, BLOCK_KV, HEAD_DIM], k_tensor.layout)
    v_blocks = gl.allocate_shared_memory(DTYPE, [KV_BUFFERS, 1, 1, BLOCK_KV, HEAD_DIM], v_tensor.layout)
    next_tile = gl.allocate_shared_memory(
        gl.int32, [8 if SHORT_WAITS else 2, 1], gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    )
    rings = (
        make_ring(q_blocks, Q_BUFFERS, CONSUMERS),
        # by name where Q is held: elsewhere that was up to 2% slower
        make_ring(k_blocks, KV_BUFFERS, CONSUMERS, KEYS_BARRIER if HELD else 0),
        make_ring(v_blocks, KV_BUFFERS, CONSUMERS, VALUES_BARRIER if HELD else 0),
        make_ring(next_tile, 2, CONSUMERS),
    )
    fence_async_shared()

    inputs = (q_tensor, k_tensor, v_tensor)
    output = (out_tensor, lse)
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (_consume, (output, rings, schedule, scale_log2, blocks, 0, CONSUMERS, TURNS, HELD, TRACED)),
                (_consume, (output, rings, schedule, scale_log2, blocks, 1, CONSUMERS, TURNS, HELD, TRACED)),
                (_produce, (inputs, rings, schedule, counter)),
            ],
            [4, 1],
            [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (_consume, (output, rings, schedule, scale_log2, blocks, 0, CONSUMERS, TURNS, HELD, TRACED)),
                (_consume, (output, rings, schedule, scale_log2, blocks, 1, CONSUMERS, TURNS, HELD, TRACED)),
                (_consume, (output, rings, schedule, scale_log2, blocks, 2, CONSUMERS, TURNS, HELD, TRACED)),
                (_produce, (inputs, rings, schedule, counter)),
            ],
            [4, 4, 1],
            [CONSUMER_REGISTERS, CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )
