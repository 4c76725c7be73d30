"""FlashAttention-3's forward pass on numbers of 8 bits: flash3's kernel, with e4m3 operands and their scales.

Q, K and V come as `fp8_quantise` leaves them. A block's scores are multiplied by the scales of its queries
and keys inside the exponential; P is 2^8 at most, to use e4m3's range. So that the scales of the values cost
no instruction a number either, O is kept in units of the scale of those it was last added to, or, where
EARLY, they are inside the exponential too: then O changes only with the maximum.
Source: Shah et al., FlashAttention-3, arXiv 2407.08608, section 3.3.
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

from kernels.flash3_kernel import (
    LN_2,
    ROWS,
    _beside_output,
    _draw,
    _load,
    _next_tile,
    _pass_turn,
    _skip,
    _take_turn,
    barrier_of_warps,
)
from kernels.flash3_schedule import Schedule, make_ring

HEADROOM = gl.constexpr(8.0)  # P is 2^8 where it would be 1: e4m3 reaches 448


ROUND_ASM = gl.constexpr(
    "{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, $2, $1;"
    " cvt.rn.satfinite.e4m3x2.f32 high, $4, $3; mov.b32 $0, {low, high}; }"
)
TAKE_ASM = gl.constexpr("mov.b32 $0, $1;")
HOLD_ASM = gl.constexpr("bar.warp.sync 0xffffffff; mov.b32 $0, $1;")


@gluon.constexpr_function
def rescale_asm(count):
    """So many numbers times as many factors; a warp whose factors are all 1 goes past the products.

    A thread has two rows of wgmma's accumulators, two numbers of the one and two of the other in turns.
    """
    one = "0f3F800000"
    first_row, other_row = f"${2 * count}", f"${2 * count + 2}"
    moves = " ".join(f"mov.f32 ${i}, ${i + count};" for i in range(count))
    products = " ".join(f"mul.f32 ${i}, ${i}, ${i + 2 * count};" for i in range(count))
    return (
        f"{{ .reg .pred p; setp.neu.f32 p, {first_row}, {one}; setp.neu.or.f32 p, {other_row}, {one}, p;"
        f" vote.sync.any.pred p, p, 0xffffffff; {moves} @!p bra DONE; {products} DONE: }}"
    )


@gluon.constexpr_function
def rescale_constraints(count):
    return ",".join(["=&f"] * count + ["f"] * (2 * count))


@gluon.constexpr_function
def accumulator_layout(columns):
    return gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, columns, 32])


@gluon.jit
def _load_values(ring, visit, descriptor, batch, head, key):
    """Copy the keys from `key` on of V transposed into this visit's buffer, once its last reader is done."""
    ring.wait_empty(visit)
    mbarrier.expect(ring.arrival(visit), descriptor.block_type.nbytes)
    tma.async_copy_global_to_shared(descriptor, [batch, head, 0, key], ring.arrival(visit), ring.block(visit))


@gluon.jit
def _produce(inputs, rings, schedule, counter):
    """Draw tiles and copy their Q, K and V, key blocks from the last to the first."""
    q_tensor, k_tensor, v_tensor = inputs
    queries, keys, values, next_tiles = rings
    tile = gl.program_id(0)
    tile_visit = 0
    visit = 0
    while tile < schedule.tiles():
        row, batch, head = schedule.place(tile)
        kv_head = head // schedule.heads_per_kv_head
        first, end = schedule.seen_blocks(row, schedule.BLOCK_Q)
        key = (end - 1) * schedule.BLOCK_KV
        _load(keys, visit, k_tensor, batch, kv_head, key)
        _load(queries, tile_visit, q_tensor, batch, head, row)
        _load_values(values, visit, v_tensor, batch, kv_head, key)
        # said before the other copies: a consumer that sees few keys asks before it hands back the others'
        tile = _draw(counter, next_tiles, tile_visit)
        for _ in range(end - first - 1):
            key -= schedule.BLOCK_KV
            visit += 1
            _load(keys, visit, k_tensor, batch, kv_head, key)
            _load_values(values, visit, v_tensor, batch, kv_head, key)
        visit += 1
        tile_visit += 1


@gluon.jit
def _start_scores(Q, keys, visit):
    """Issue Q K^T of this visit's key block."""
    BLOCK_KV: gl.constexpr = keys.blocks.shape[3]
    K = keys.block(visit).reshape([BLOCK_KV, keys.blocks.shape[4]])
    nothing = gl.zeros([ROWS, BLOCK_KV], gl.float32, accumulator_layout(BLOCK_KV))
    return warpgroup_mma(Q, K.permute((1, 0)), nothing, use_acc=False, is_async=True)


@gluon.jit
def _start_output(P, values, visit, out):
    """Issue out + P V of this visit's key block."""
    HEAD_DIM: gl.constexpr = values.blocks.shape[3]
    V = values.block(visit).reshape([HEAD_DIM, values.blocks.shape[4]])
    return warpgroup_mma(_as_operand(P, accumulator_layout(HEAD_DIM)), V.permute((1, 0)), out, is_async=True)


@gluon.jit
def _beside(column, tensor):
    """One number a row as a column that multiplies the rows of a tensor."""
    return gl.convert_layout(column, gl.SliceLayout(1, tensor.type.layout), assert_trivial=True)[:, None]


@gluon.jit
def _row_maximum(S):
    """The largest score of each row; what a thread has of it is compared without one long chain."""
    of_pairs = gl.max(S.reshape([ROWS, S.shape[1] // 8, 4, 2]), axis=3)
    largest = gl.max(gl.max(of_pairs, axis=1), axis=1)
    return gl.convert_layout(largest, gl.SliceLayout(1, accumulator_layout(S.shape[1])), assert_trivial=True)


@gluon.jit
def _in_fours(S):
    """S [rows, keys] as four tensors [rows, keys / 4], whose numbers are neighbours in wgmma's left operand.

    Of 32 keys a thread has 16 h + 8 j + 2 t + i for its t, h, j and i to 1; as operand 16 h + 4 t + 2 j + i.
    """
    KEYS: gl.constexpr = S.shape[1]
    S = S.reshape([ROWS, KEYS // 32, 2, 2, 4, 2]).permute((0, 1, 2, 4, 3, 5))
    even, odd = gl.split(S.reshape([ROWS, KEYS // 4, 2, 2]))
    first, third = gl.split(even)
    second, fourth = gl.split(odd)
    return first, second, third, fourth


@gluon.jit
def _new_maximum(S, running_max, to_log2, v_scale, EARLY: gl.constexpr):
    """The largest logit of each row up to this block; to_log2, above 0, makes logits of scores.

    They are in units of log2, as is the values' scale, which is in them where EARLY.
    """
    largest = _row_maximum(S) * to_log2
    if EARLY:
        largest += v_scale
    return gl.maximum(running_max, largest)


@gluon.jit
def _softmax_step(S, new_max, running_max, running_sum, to_log2, v_scale, EARLY: gl.constexpr):
    """Online softmax of a block: P, the new sum, and the factor that rescales what was there.

    P and the sum have 2^HEADROOM in them, P the values' scale too where EARLY. P is e4m3, four neighbours of
    wgmma's left operand in an int32 [rows, keys / 4]: carried through the loop as numbers of 8 bits they
    would be packed anew before every product. The sum is [rows, 4], a part a lane.
    """
    reference = gl.where(new_max == float("-inf"), 0.0, new_max)  # a row may have seen no key yet
    alpha = gl.exp2(running_max - reference)
    reference -= HEADROOM
    if EARLY:
        reference -= v_scale
    first, second, third, fourth = _in_fours(S)
    offset = _beside(reference, first)
    first = gl.exp2(first * to_log2 - offset)
    second = gl.exp2(second * to_log2 - offset)
    third = gl.exp2(third * to_log2 - offset)
    fourth = gl.exp2(fourth * to_log2 - offset)
    P = gl.inline_asm_elementwise(
        ROUND_ASM, "=r,f,f,f,f", [first, second, third, fourth], dtype=gl.int32, is_pure=True, pack=1
    )
    fours = (first + second) + (third + fourth)
    sums = gl.sum(fours.reshape([ROWS, fours.shape[1] // 4, 4]), axis=1)
    if EARLY:
        sums *= gl.exp2(-v_scale)
    return P, running_sum * _beside(alpha, sums) + sums, alpha


@gluon.jit
def _held(numbers):
    """The same; what follows waits until they are there: ptxas would wait for P V before the softmax."""
    return gl.inline_asm_elementwise(HOLD_ASM, "=f,f", [numbers], dtype=gl.float32, is_pure=False, pack=1)


@gluon.jit
def _in_place(numbers):
    """The same; what follows comes after the waits before, and what they are made of before these."""
    return gl.inline_asm_elementwise(TAKE_ASM, "=f,f", [numbers], dtype=gl.float32, is_pure=False, pack=1)


@gluon.jit
def _rescaled(out, alpha, OUT: gl.constexpr):
    """out * alpha of each row."""
    COUNT: gl.constexpr = 32
    ASM: gl.constexpr = rescale_asm(COUNT)
    CONSTRAINTS: gl.constexpr = rescale_constraints(COUNT)
    alphas = _beside_output(alpha, OUT)
    return gl.inline_asm_elementwise(
        ASM, CONSTRAINTS, [out, alphas], dtype=gl.float32, is_pure=False, pack=COUNT
    )


@gluon.jit
def _as_operand(P, OUT: gl.constexpr):
    """P of `_rounded` in the registers where wgmma takes its left operand: nothing moves."""
    OPERAND: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=OUT, k_width=4)
    twice = gl.join(P, P)  # says of each register that it stands for four numbers
    four = gl.join(twice, twice).reshape([ROWS, P.shape[1] * 4])
    four = gl.convert_layout(four, OPERAND, assert_trivial=True)
    return gl.inline_asm_elementwise(
        TAKE_ASM, "=r,r,r,r,r", [four], dtype=gl.float8e4nv, is_pure=True, pack=4
    )


@gluon.jit
def _visit_others(
    last, first, P, state, scales, Q, keys, values, schedule, whole, positions,
    CONSUMER: gl.constexpr, CONSUMERS: gl.constexpr, TURNS: gl.constexpr, EARLY: gl.constexpr,
):  # fmt: skip
    """Key blocks last - 1 down to first, P of the last one given and its P V still to be issued.

    P V of a block is waited for before the exponentials of the next where EARLY, or after them. Before, what
    rounds and adds them runs among them, and O is rescaled under the next product; after, they come at once.
    """
    SCORES: gl.constexpr = accumulator_layout(schedule.BLOCK_KV)
    OUT: gl.constexpr = accumulator_layout(values.blocks.shape[3])
    out, running_max, running_sum, visit = state
    alpha = gl.full([ROWS], 1.0, gl.float32, gl.SliceLayout(1, SCORES))
    q_to_log2, k_scales, v_scales = scales
    v_scale = gl.load(v_scales + last)
    next_k_scale = gl.load(k_scales + gl.maximum(last - 1, 0))  # asked for a visit before it is needed
    next_v_scale = gl.load(v_scales + gl.maximum(last - 1, 0))
    for step in range(last - first):
        block = last - 1 - step
        to_log2 = q_to_log2 * next_k_scale
        to_scale = gl.exp2(v_scale - next_v_scale)
        v_scale = next_v_scale
        next_k_scale = gl.load(k_scales + gl.maximum(block - 1, 0))
        next_v_scale = gl.load(v_scales + gl.maximum(block - 1, 0))
        keys.wait_full(visit + 1)
        _take_turn(CONSUMER, TURNS)
        S = _start_scores(Q, keys, visit + 1)
        if EARLY:
            out = _rescaled(out, alpha, OUT)
        else:
            values.wait_full(visit)
        out = _start_output(P, values, visit, out)
        _pass_turn(CONSUMER, CONSUMERS, TURNS)
        S = warpgroup_mma_wait(1, deps=[S])
        keys.release(visit + 1)
        S = schedule.masked(S, positions, block, whole, False, SCORES)
        new_max = _new_maximum(S, running_max, to_log2, v_scale, EARLY)
        if EARLY:
            new_max = _in_place(new_max)
            values.wait_full(visit + 1)  # ptxas moves nothing past it
            out, P = warpgroup_mma_wait(0, deps=[out, P])
            new_max = _in_place(new_max)
            values.release(visit)
        weights, running_sum, alpha = _softmax_step(
            S, new_max, running_max, running_sum, to_log2, v_scale, EARLY
        )
        running_max = new_max
        if EARLY:
            P = weights
        else:
            running_sum = _held(running_sum)
            out, P = warpgroup_mma_wait(0, deps=[out, P])
            P = gl.inline_asm_elementwise(TAKE_ASM, "=r,r", [weights], dtype=gl.int32, is_pure=False, pack=1)
            values.release(visit)
            out = out * _beside_output(alpha * to_scale, OUT)
        visit += 1
    if EARLY:
        out = out * _beside_output(alpha, OUT)
    return P, out, v_scale, running_max, running_sum, visit


@gluon.jit
def _store(state, out_block, output, place, row, schedule, EARLY: gl.constexpr):
    """Divide by the row sums, and store the output, by way of shared memory, and the log-sum-exp."""
    out, v_scale, running_max, running_sum = state
    out_tensor, lse = output
    batch, head = place
    HEAD_DIM: gl.constexpr = out_block.shape[3]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM)
    unit = 1.0 if EARLY else gl.exp2(v_scale)
    out = out * _beside_output(gl.where(running_sum == 0.0, 0.0, unit / running_sum), OUT)
    tma.store_wait(0)  # of the tile before
    barrier_of_warps()
    out_block.reshape([ROWS, HEAD_DIM]).store(out.to(out_block.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(out_tensor, [batch, head, row, 0], out_block)
    rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, accumulator_layout(schedule.BLOCK_KV)))
    row_lse = (running_max - HEADROOM + gl.log2(running_sum)) * LN_2
    lse_rows = lse + (batch * schedule.heads + head) * schedule.seq_q + rows
    gl.store(lse_rows, row_lse, mask=rows < schedule.seq_q)


@gluon.jit
def _consume(
    shared, CONSUMER: gl.constexpr, CONSUMERS: gl.constexpr, TURNS: gl.constexpr, EARLY: gl.constexpr,
):  # fmt: skip
    """Attention of 64 rows of every tile."""
    output, out_blocks, rings, schedule, scale_log2, scales = shared
    queries, keys, values, next_tiles = rings
    q_scales, k_scales, v_scales = scales
    HEAD_DIM: gl.constexpr = values.blocks.shape[3]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM)
    SCORES: gl.constexpr = accumulator_layout(schedule.BLOCK_KV)
    SCORES_ROW: gl.constexpr = gl.SliceLayout(1, SCORES)
    out_block = out_blocks.index(CONSUMER)
    key_blocks = (schedule.seq_kv + schedule.BLOCK_KV - 1) // schedule.BLOCK_KV
    kv_heads = schedule.heads // schedule.heads_per_kv_head
    row_blocks = (schedule.seq_q + ROWS - 1) // ROWS

    if CONSUMER == CONSUMERS - 1:
        _pass_turn(CONSUMER, CONSUMERS, TURNS)
    tile = gl.program_id(0)
    tile_row, batch, head = schedule.place(tile)
    tile_visit = 0
    visit = 0
    while tile < schedule.tiles():
        row = tile_row + CONSUMER * ROWS
        row_block = gl.minimum(row // ROWS, row_blocks - 1)
        q_to_log2 = scale_log2 * gl.load(q_scales + (batch * schedule.heads + head) * row_blocks + row_block)
        first_block = (batch * kv_heads + head // schedule.heads_per_kv_head) * key_blocks
        head_scales = (q_to_log2, k_scales + first_block, v_scales + first_block)
        positions = schedule.position(row + gl.arange(0, ROWS, layout=SCORES_ROW))
        tile_first, tile_end = schedule.seen_blocks(tile_row, schedule.BLOCK_Q)
        first, end = schedule.seen_blocks(row, ROWS)
        whole = schedule.whole_blocks(row, ROWS)
        to_log2 = q_to_log2 * gl.load(k_scales + first_block + (end - 1))
        v_scale = gl.load(v_scales + first_block + (end - 1))
        visit = _skip(tile_end - end, visit, keys, values, CONSUMER, CONSUMERS, TURNS)
        queries.wait_full(tile_visit)
        Q = queries.block(tile_visit, CONSUMER).reshape([ROWS, HEAD_DIM])
        out = gl.zeros([ROWS, HEAD_DIM], gl.float32, OUT)
        running_max = gl.full([ROWS], float("-inf"), gl.float32, SCORES_ROW)
        keys.wait_full(visit)
        S = _start_scores(Q, keys, visit)
        S = warpgroup_mma_wait(0, deps=[S])
        keys.release(visit)
        S = schedule.masked(S, positions, end - 1, whole, True, SCORES)
        new_max = _new_maximum(S, running_max, to_log2, v_scale, EARLY)
        if EARLY:
            new_max = _in_place(new_max)
            values.wait_full(visit)
        P, running_sum, _ = _softmax_step(S, new_max, running_max, 0.0, to_log2, v_scale, EARLY)
        running_max = new_max
        P, out, v_scale, running_max, running_sum, visit = _visit_others(
            end - 1, first, P, (out, running_max, running_sum, visit), head_scales, Q, keys, values,
            schedule, whole, positions, CONSUMER, CONSUMERS, TURNS, EARLY,
        )  # fmt: skip
        queries.release(tile_visit)
        if not EARLY:
            values.wait_full(visit)
        out = _start_output(P, values, visit, out)
        place = batch, head
        tile = _next_tile(next_tiles, tile_visit)
        tile_row, batch, head = schedule.place(tile)
        out = warpgroup_mma_wait(0, deps=[out])
        values.release(visit)
        visit = _skip(first - tile_first, visit + 1, keys, values, CONSUMER, CONSUMERS, TURNS)
        running_sum = gl.convert_layout(gl.sum(running_sum, axis=1), SCORES_ROW, assert_trivial=True)
        _store((out, v_scale, running_max, running_sum), out_block, output, place, row, schedule, EARLY)
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
    CAUSAL: gl.constexpr, ALIGNED: gl.constexpr,
    CONSUMERS: gl.constexpr, Q_BUFFERS: gl.constexpr, KV_BUFFERS: gl.constexpr, TURNS: gl.constexpr,
    EARLY: gl.constexpr, CONSUMER_REGISTERS: gl.constexpr, PRODUCER_REGISTERS: gl.constexpr,
):  # fmt: skip
    """One block of threads: the tiles it draws from `counter`, a zeroed int32 of this launch alone.

    q_tensor and k_tensor are descriptors [batch, heads, seq, head_dim] of e4m3, v_tensor of V transposed
    [batch, kv_heads, head_dim, seq]; out_tensor's is 16-bit, lse float32. Scales are float32 [batch, heads,
    blocks]: of 64 queries, of BLOCK_KV keys and values.
    """
    DTYPE: gl.constexpr = q_tensor.dtype
    HEAD_DIM: gl.constexpr = q_tensor.block_type.shape[3]
    BLOCK_KV: gl.constexpr = k_tensor.block_type.shape[2]
    schedule = Schedule(
        batch_heads, heads, heads_per_kv_head, heads_together, query_blocks, seq_q, seq_kv, seq_kv,
        CONSUMERS * ROWS, BLOCK_KV, CAUSAL, False, ALIGNED,
    )  # fmt: skip
    q_blocks = gl.allocate_shared_memory(
        DTYPE, [Q_BUFFERS * CONSUMERS, 1, 1, ROWS, HEAD_DIM], q_tensor.layout
    )
    k_blocks = gl.allocate_shared_memory(DTYPE, [KV_BUFFERS, 1, 1, BLOCK_KV, HEAD_DIM], k_tensor.layout)
    v_blocks = gl.allocate_shared_memory(DTYPE, [KV_BUFFERS, 1, 1, HEAD_DIM, BLOCK_KV], v_tensor.layout)
    out_blocks = gl.allocate_shared_memory(
        out_tensor.dtype, [CONSUMERS, 1, 1, ROWS, HEAD_DIM], out_tensor.layout
    )
    next_tile = gl.allocate_shared_memory(gl.int32, [2, 1], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    rings = (
        make_ring(q_blocks, Q_BUFFERS, CONSUMERS),
        make_ring(k_blocks, KV_BUFFERS, CONSUMERS),
        make_ring(v_blocks, KV_BUFFERS, CONSUMERS),
        make_ring(next_tile, 2, CONSUMERS),
    )
    fence_async_shared()

    inputs = (q_tensor, k_tensor, v_tensor)
    output = (out_tensor, lse)
    scales = (q_scales, k_scales, v_scales)
    shared = (output, out_blocks, rings, schedule, scale_log2, scales)
    if CONSUMERS == 2:
        gl.warp_specialize(
            [
                (_consume, (shared, 0, CONSUMERS, TURNS, EARLY)),
                (_consume, (shared, 1, CONSUMERS, TURNS, EARLY)),
                (_produce, (inputs, rings, schedule, counter)),
            ],
            [4, 1],
            [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )
    else:
        gl.warp_specialize(
            [
                (_consume, (shared, 0, CONSUMERS, TURNS, EARLY)),
                (_consume, (shared, 1, CONSUMERS, TURNS, EARLY)),
                (_consume, (shared, 2, CONSUMERS, TURNS, EARLY)),
                (_produce, (inputs, rings, schedule, counter)),
            ],
            [4, 4, 1],
            [CONSUMER_REGISTERS, CONSUMER_REGISTERS, PRODUCER_REGISTERS],
        )
