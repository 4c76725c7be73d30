"""Online softmax on numbers of 8 bits: logits from scores and their scales, P in fours of e4m3, O rescaled.

P is 2^8 at most, to use e4m3's range.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.hopper.warp_group import ROWS, accumulator_layout, beside

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


@gluon.jit
def _row_maximum(S):
    """The largest score of each row; what a thread has of it is compared without one long chain."""
    of_pairs = gl.max(S.reshape([ROWS, S.shape[1] // 8, 4, 2]), axis=3)
    largest = gl.max(gl.max(of_pairs, axis=1), axis=1)
    SCORES_ROW: gl.constexpr = gl.SliceLayout(1, accumulator_layout(S.shape[1], 8))
    return gl.convert_layout(largest, SCORES_ROW, assert_trivial=True)


@gluon.jit
def _beside(column, tensor):
    """One number a row as a column that multiplies the rows of this tensor."""
    LAYOUT: gl.constexpr = tensor.type.layout
    return beside(column, LAYOUT)


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
def new_maximum(S, running_max, to_log2, v_scale, EARLY: gl.constexpr):
    """The largest logit of each row up to this block; to_log2, above 0, makes logits of scores.

    They are in units of log2, as is the values' scale, which is in them where EARLY.
    """
    largest = _row_maximum(S) * to_log2
    if EARLY:
        largest += v_scale
    return gl.maximum(running_max, largest)


@gluon.jit
def softmax_step(S, new_max, running_max, running_sum, to_log2, v_scale, EARLY: gl.constexpr):
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
def held_back(numbers):
    """The same; what follows waits until they are there: ptxas would wait for P V before the softmax."""
    return gl.inline_asm_elementwise(HOLD_ASM, "=f,f", [numbers], dtype=gl.float32, is_pure=False, pack=1)


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
