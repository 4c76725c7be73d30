"""A warp group that computes on numbers of 8 bits, keys in parts: attention of 64 query rows of every tile.

Gluon's tiles are powers of two, so a visit of 192 keys is of three products Q K^T of 64, and of three P V.
What a visit costs however many keys it has (barriers, waits, a row's maximum over lanes, O rescaled) is then
spread over more of them. A part has scales of its own; those of the values are inside the exponential: O
changes with a row's reference alone.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma, warpgroup_mma, warpgroup_mma_wait

from kernels.hopper.consumer import skip
from kernels.hopper.fp8_consumer import counts_of, scales_of, store
from kernels.hopper.fp8_reference import LANES, LOWEST, lane_maximum, new_reference, times_rows, weights_of
from kernels.hopper.fp8_softmax import TAKE_ASM, as_operand, held_back
from kernels.hopper.tiles import next_tile
from kernels.hopper.warp_group import ROWS, Turns, accumulator_layout, beside


@gluon.jit
def _start_scores(Q, keys, visit):
    """Issue Q K^T of this visit's parts; Q is in registers, as products of 64 keys read it often."""
    PART: gl.constexpr = keys.blocks.shape[3]
    S = ()
    for part in gl.static_range(keys.PARTS):
        K = keys.block(visit, part).reshape([PART, keys.blocks.shape[4]])
        nothing = gl.zeros([ROWS, PART], gl.float32, accumulator_layout(PART, 8))
        S += (warpgroup_mma(Q, K.permute((1, 0)), nothing, use_acc=False, is_async=True),)
    return S


@gluon.jit
def _start_output(P, values, visit, out):
    """Issue out + P V of this visit's parts."""
    HEAD_DIM: gl.constexpr = values.blocks.shape[3]
    for part in gl.static_range(values.PARTS):
        V = values.block(visit, part).reshape([HEAD_DIM, values.blocks.shape[4]])
        operand = as_operand(P[part], accumulator_layout(HEAD_DIM, 8))
        out = warpgroup_mma(operand, V.permute((1, 0)), out, is_async=True)
    return out


@gluon.jit
def _asked(scales, block, counts, PARTS: gl.constexpr):
    """A block's scales by part, asked for a visit before they are needed: logits of scores, values' log2."""
    _, k_scales, v_scales = scales
    last = counts[0] - 1
    of_keys = ()
    of_values = ()
    for part in gl.static_range(PARTS):
        at = gl.maximum(gl.minimum(block * PARTS + part, last), 0)
        of_keys += (gl.load(k_scales + at),)
        of_values += (gl.load(v_scales + at),)
    return of_keys, of_values


@gluon.jit
def _masked(S, positions, key, schedule):
    """S of the keys from `key` on, with -inf where a row does not see one."""
    SCORES: gl.constexpr = accumulator_layout(S.shape[1], 8)
    columns = gl.arange(0, S.shape[1], layout=gl.SliceLayout(0, SCORES))[None, :]
    last = schedule.seq_kv - 1 - key
    if schedule.CAUSAL:
        last = beside(positions, SCORES) - key
    return gl.where(columns <= last, S, float("-inf"))


@gluon.jit
def _softmax(
    S, block, state, asked, q_to_log2, keys, visit, schedule, view, UNDER: gl.constexpr, LAST: gl.constexpr
):
    """Online softmax of a visit: P by part, the state, and the factor of O. UNDER later products run on."""
    PARTS: gl.constexpr = keys.PARTS
    PART: gl.constexpr = keys.blocks.shape[3]
    reference, running_sum = state
    of_keys, v_scales = asked
    largest = gl.full([ROWS, 4], float("-inf"), gl.float32, LANES)
    to_log2 = ()
    scores = ()
    for part in gl.static_range(PARTS):
        of_part = warpgroup_mma_wait(UNDER + PARTS - 1 - part, deps=[S[part]])
        if part == PARTS - 1:
            keys.release(visit)
        if LAST or not schedule.ALIGNED:  # noqa: SIM102 (known when compiling, what follows is not)
            if block >= view[1]:
                of_part = _masked(of_part, view[0], block * schedule.BLOCK_KV + part * PART, schedule)
        to_log2 += (q_to_log2 * of_keys[part],)
        largest = gl.maximum(largest, lane_maximum(of_part) * to_log2[part] + v_scales[part])
        scores += (of_part,)
    reference, alpha = new_reference(largest, reference)
    P = ()
    running_sum *= alpha
    for part in gl.static_range(PARTS):
        weights, sums = weights_of(scores[part], reference, to_log2[part], v_scales[part])
        P += (weights,)
        running_sum += sums
    return P, (reference, running_sum), alpha


@gluon.jit
def _visit_others(end, first, P, out, state, visit, asked, scales, counts, Q, keys, values, schedule, view):
    """Key blocks end - 1 down to first, P of the one after given and its P V still to be issued."""
    PARTS: gl.constexpr = keys.PARTS
    OUT: gl.constexpr = accumulator_layout(values.blocks.shape[3], 8)
    for step in range(end - first):
        block = end - 1 - step
        asked_next = _asked(scales, block - 1, counts, PARTS)
        keys.wait_full(visit + 1)
        S = _start_scores(Q, keys, visit + 1)
        values.wait_full(visit)
        out = _start_output(P, values, visit, out)
        weights, state, alpha = _softmax(
            S, block, state, asked, scales[0], keys, visit + 1, schedule, view, PARTS, False
        )
        reference, running_sum = state
        state = reference, held_back(running_sum)
        out = warpgroup_mma_wait(0, deps=[out])
        P = ()
        for part in gl.static_range(PARTS):
            taken = gl.inline_asm_elementwise(
                TAKE_ASM, "=r,r", [weights[part]], dtype=gl.int32, is_pure=False, pack=1
            )
            P += (taken,)
        values.release(visit)
        out = times_rows(out, alpha, OUT)
        asked = asked_next
        visit += 1
    return P, out, state, visit


@gluon.jit
def consume_in_parts(
    output, out_blocks, rings, schedule, scale_log2, scales,
    CONSUMERS: gl.constexpr, TURNS: gl.constexpr, EARLY: gl.constexpr, CONSUMER: gl.constexpr,
):  # fmt: skip
    """Attention of 64 rows of every tile."""
    queries, keys, values, next_tiles = rings
    PARTS: gl.constexpr = keys.PARTS
    PART: gl.constexpr = keys.blocks.shape[3]
    HEAD_DIM: gl.constexpr = values.blocks.shape[3]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM, 8)
    SCORES: gl.constexpr = accumulator_layout(PART, 8)
    SCORES_ROW: gl.constexpr = gl.SliceLayout(1, SCORES)
    OPERAND: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=SCORES, k_width=4)
    out_block = out_blocks.index(CONSUMER)
    q_scales, k_scales, v_scales, key_blocks = scales
    scales = q_scales, k_scales, v_scales
    counts = counts_of(schedule, key_blocks)
    turns = Turns(CONSUMER, CONSUMERS, TURNS)
    tile = gl.program_id(0)
    tile_row, batch, head = schedule.place(tile)
    tile_visit = 0
    visit = 0
    while tile < schedule.tiles():
        row = tile_row + CONSUMER * ROWS
        head_scales = scales_of(scales, scale_log2, row, batch, head, counts, schedule)
        positions = schedule.position(row + gl.arange(0, ROWS, layout=SCORES_ROW))
        tile_first, tile_end = schedule.seen_blocks(tile_row, schedule.BLOCK_Q)
        first, end = schedule.seen_blocks(row, ROWS)
        _whole_first, whole_end = schedule.whole_blocks(row, ROWS)
        view = positions, whole_end
        asked = _asked(head_scales, end - 1, counts, PARTS)
        visit = skip(tile_end - end, visit, keys, values, turns)
        queries.wait_full(tile_visit)
        Q = queries.block(tile_visit, CONSUMER).reshape([ROWS, HEAD_DIM]).load(OPERAND)
        out = gl.zeros([ROWS, HEAD_DIM], gl.float32, OUT)
        state = gl.full([ROWS, 4], LOWEST, gl.float32, LANES), gl.full([ROWS, 4], 0.0, gl.float32, LANES)
        keys.wait_full(visit)
        S = _start_scores(Q, keys, visit)
        P, state, _ = _softmax(
            S, end - 1, state, asked, head_scales[0], keys, visit, schedule, view, 0, True
        )  # fmt: skip
        asked = _asked(head_scales, end - 2, counts, PARTS)
        P, out, state, visit = _visit_others(
            end - 1, first, P, out, state, visit, asked, head_scales, counts, Q, keys, values, schedule, view
        )
        queries.release(tile_visit)
        values.wait_full(visit)
        out = _start_output(P, values, visit, out)
        place = batch, head
        tile = next_tile(next_tiles, tile_visit)
        tile_row, batch, head = schedule.place(tile)
        out = warpgroup_mma_wait(0, deps=[out])
        values.release(visit)
        visit = skip(first - tile_first, visit + 1, keys, values, turns)
        reference, running_sum = state
        running_sum = gl.convert_layout(gl.sum(running_sum, axis=1), SCORES_ROW, assert_trivial=True)
        reference = gl.convert_layout(gl.max(reference, axis=1), SCORES_ROW, assert_trivial=True)
        state = out, 0.0, reference, running_sum
        store(state, out_block, output, place, row, schedule, True, SCORES_ROW)
        tile_visit += 1
    tma.store_wait(0)
