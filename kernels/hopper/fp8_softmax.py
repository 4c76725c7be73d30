"""Online softmax on numbers of 8 bits: logits from scores and their scales, P in fours of e4m3, O rescaled.

P is 2^8 at most, to use e4m3's range. Half of it are exponentials, rounded; all of it would take as long as
the products do. Of the other half the logits are rounded: e4m3 keeps the exponent of 2 in its upper bits and
a linear fraction in its lower three, so that the nearest integer to 8 times a logit, counted from where e4m3
does, is the code of what is 2 to it within 8%. Exponentials are rounded within 6%; in the root of the mean
square the two are off by 3.1 and 2.6%. Source: Schraudolph, Neural Computation 11 (1999) 853.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.hopper.warp_group import ROWS, accumulator_layout, beside
from kernels.tile.tile import ROUND_ASM

HEADROOM = gl.constexpr(8.0)  # P is 2^8 where it would be 1: e4m3 reaches 448
CODES = gl.constexpr(8.0)  # of e4m3, for each power of 2
CODE_OF_ONE = gl.constexpr(8.0 * (7 - 0.057))  # less what lines between powers of 2 lie above in the mean
NEAR = gl.constexpr(4.0)  # below 2^-7 a weight that is rounded by its logit is 0: P is 2^4 and more somewhere
DEEPEST = gl.constexpr(24.0)  # beside what counts so much more, float32 loses all

CODE_ASM = gl.constexpr(  # the halves of four numbers and, in pairs of float16, their sum
    "{ .reg .b16 low, high; .reg .b32 first, second, third, fourth;"
    " cvt.rni.s32.f32 first, $3; cvt.rni.s32.f32 second, $4; cvt.pack.sat.u8.s32.b32 $0, second, first, 0;"
    " cvt.rni.s32.f32 third, $5; cvt.rni.s32.f32 fourth, $6; cvt.pack.sat.u8.s32.b32 $1, fourth, third, 0;"
    " cvt.u16.u32 low, $0; cvt.rn.f16x2.e4m3x2 first, low;"
    " cvt.u16.u32 high, $1; cvt.rn.f16x2.e4m3x2 second, high; add.rn.f16x2 $2, first, second; }"
)
JOIN_ASM = gl.constexpr("prmt.b32 $0, $1, $2, 0x5410;")
ADD_PAIRS_ASM = gl.constexpr("add.rn.f16x2 $0, $1, $2;")
SUM_OF_PAIR_ASM = gl.constexpr(
    "{ .reg .b16 low, high; .reg .f32 one, other; mov.b32 {low, high}, $1;"
    " cvt.f32.f16 one, low; cvt.f32.f16 other, high; add.f32 $0, one, other; }"
)
TAKE_ASM = gl.constexpr("mov.b32 $0, $1;")

LANES = gl.constexpr(  # who has which of [rows, 4]: of a row what its four lanes have added up
    gl.DistributedLinearLayout(
        reg_bases=[[8, 0]],
        lane_bases=[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]],
        warp_bases=[[16, 0], [32, 0]],
        block_bases=[],
        shape=[ROWS.value, 4],
    )
)


@gluon.constexpr_function
def rescale_asm(count):
    """So many numbers, of two rows in turns, times as many factors; a warp of factors 1 goes past."""
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


@gluon.jit
def _row_maximum(S):
    """The largest score of each row; what a thread has of it is compared without one long chain."""
    of_pairs = gl.max(S.reshape([ROWS, S.shape[1] // 8, 4, 2]), axis=3)
    largest = gl.max(gl.max(of_pairs, axis=1), axis=1)
    SCORES_ROW: gl.constexpr = gl.SliceLayout(1, accumulator_layout(S.shape[1], 8))
    return gl.convert_layout(largest, SCORES_ROW, assert_trivial=True)


@gluon.jit
def new_reference(S, reference, top, to_log2, v_scale):
    """What logits of each row are taken relative to from this block on, and the largest one up to it.

    They are in units of log2, and the values' scale is in them; to_log2, above 0, makes logits of scores. The
    reference is no less than the block's largest, and no more than NEAR above it: small weights, of many
    keys, may weigh as much as a large one.
    """
    largest = _row_maximum(S)
    highest = largest * to_log2 + (v_scale + NEAR)
    largest = largest * to_log2 + v_scale
    lowest = gl.maximum(largest, top - DEEPEST)
    return gl.maximum(gl.minimum(reference, highest), lowest), gl.maximum(top, largest)


@gluon.jit
def _halves(S):
    """S [rows, keys] as two tensors [rows, keys / 32, 4, 2, 2]: of 32 keys the first half, and the other.

    Of 32 keys a thread has 16 h + 8 j + 2 t + i for its t, h, j and i to 1; as wgmma's left operand they are
    16 h + 4 t + 2 j + i.
    """
    S = S.reshape([ROWS, S.shape[1] // 32, 2, 2, 4, 2]).permute((0, 1, 4, 3, 5, 2))
    return gl.split(S)


@gluon.jit
def _in_fours(half):
    """Four tensors [rows, keys / 32, 4] of a half, whose numbers are neighbours in wgmma's left operand."""
    even, odd = gl.split(half)
    first, third = gl.split(even)
    second, fourth = gl.split(odd)
    return first, second, third, fourth


@gluon.jit
def _beside(column, tensor):
    """One number a row beside the rows of a tensor of two dimensions, or three."""
    LAYOUT: gl.constexpr = tensor.type.layout
    if len(tensor.shape) == 2:
        return beside(column, LAYOUT)
    else:
        return beside(column, gl.SliceLayout(2, LAYOUT))[:, :, None]


@gluon.jit
def _exponentials(half, to_log2, offset):
    """2^(half * to_log2 - offset), in fours of e4m3; what of each row's sum is a lane's, [rows, 4]."""
    first, second, third, fourth = _in_fours(half)
    offset = _beside(offset, first)
    first = gl.exp2(first * to_log2 - offset)
    second = gl.exp2(second * to_log2 - offset)
    third = gl.exp2(third * to_log2 - offset)
    fourth = gl.exp2(fourth * to_log2 - offset)
    P = gl.inline_asm_elementwise(
        ROUND_ASM, "=r,f,f,f,f", [first, second, third, fourth], dtype=gl.int32, is_pure=True, pack=1
    )
    sums = gl.sum((first + second) + (third + fourth), axis=1)
    return P, gl.convert_layout(sums, LANES, assert_trivial=True)


@gluon.jit
def _codes(half, to_log2, offset):
    """As `_exponentials`, by rounding logits; the sum is that of the rounded numbers."""
    first, second, third, fourth = _in_fours(half)
    to_code = to_log2 * CODES
    offset = _beside(offset * CODES - CODE_OF_ONE, first)
    first = first * to_code - offset
    second = second * to_code - offset
    third = third * to_code - offset
    fourth = fourth * to_code - offset
    low, high, pairs = gl.inline_asm_elementwise(
        CODE_ASM, "=&r,=&r,=r,f,f,f,f", [first, second, third, fourth],
        dtype=(gl.int32, gl.int32, gl.int32), is_pure=True, pack=1,
    )  # fmt: skip
    P = gl.inline_asm_elementwise(JOIN_ASM, "=r,r,r", [low, high], dtype=gl.int32, is_pure=True, pack=1)
    return P, _sum_of_pairs(pairs)


@gluon.jit
def _sum_of_pairs(pairs):
    """The sum over the middle dimension of [rows, n, 4] pairs of float16, and of each pair: at most 2^14."""
    if pairs.shape[1] == 1:
        pairs = gl.convert_layout(pairs.reshape([ROWS, 4]), LANES, assert_trivial=True)
        return gl.inline_asm_elementwise(
            SUM_OF_PAIR_ASM, "=f,r", [pairs], dtype=gl.float32, is_pure=True, pack=1
        )
    else:
        one, other = gl.split(pairs.reshape([ROWS, pairs.shape[1] // 2, 2, 4]).permute((0, 1, 3, 2)))
        sums = gl.inline_asm_elementwise(
            ADD_PAIRS_ASM, "=r,r,r", [one, other], dtype=gl.int32, is_pure=True, pack=1
        )
        return _sum_of_pairs(sums)


@gluon.jit
def softmax_step(S, new, reference, running_sum, to_log2, v_scale):
    """Online softmax of a block: P, the new sum, and the factor from the reference before to the new one.

    P and the sum have 2^HEADROOM in them, P the values' scale too. P is e4m3, four neighbours of wgmma's left
    operand in an int32 [rows, keys / 4]: carried through the loop as numbers of 8 bits they would be packed
    anew before every product. The sum is [rows, 4], a part a lane.
    """
    new = gl.where(new == float("-inf"), 0.0, new)  # a row may have seen no key yet
    alpha = gl.exp2(reference - new)
    offset = new - HEADROOM - v_scale
    coded, exact = _halves(S)
    P, sums = _exponentials(exact, to_log2, offset)
    P_coded, sums_coded = _codes(coded, to_log2, offset)
    P = gl.join(P_coded, P).permute((0, 1, 3, 2)).reshape([ROWS, S.shape[1] // 4])
    to_sum = gl.exp2(-v_scale)
    running_sum = (running_sum * _beside(alpha, sums) + sums * to_sum) + sums_coded * to_sum
    return P, running_sum, alpha


@gluon.jit
def in_place(numbers):
    """The same; what follows comes after the waits before, and what they are made of before these."""
    return gl.inline_asm_elementwise(TAKE_ASM, "=f,f", [numbers], dtype=gl.float32, is_pure=False, pack=1)


@gluon.jit
def rescaled(out, alpha, OUT: gl.constexpr):
    """out * alpha of each row."""
    COUNT: gl.constexpr = 32
    ASM: gl.constexpr = rescale_asm(COUNT)
    CONSTRAINTS: gl.constexpr = rescale_constraints(COUNT)
    alphas = beside(alpha, OUT)
    return gl.inline_asm_elementwise(
        ASM, CONSTRAINTS, [out, alphas], dtype=gl.float32, is_pure=False, pack=COUNT
    )


@gluon.jit
def as_operand(P, OUT: gl.constexpr):
    """P of `softmax_step` in the registers where wgmma takes its left operand: nothing moves."""
    OPERAND: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=OUT, k_width=4)
    twice = gl.join(P, P)  # says of each register that it stands for four numbers
    four = gl.join(twice, twice).reshape([ROWS, P.shape[1] * 4])
    four = gl.convert_layout(four, OPERAND, assert_trivial=True)
    return gl.inline_asm_elementwise(
        TAKE_ASM, "=r,r,r,r,r", [four], dtype=gl.float8e4nv, is_pure=True, pack=4
    )
