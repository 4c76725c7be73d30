"""Scores of products (softcap, slopes), their online softmax, P as an operand, and sinks at a row's end."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernels.hopper.warp_group import LN_2, ROWS, accumulator_layout, as_operand

LOG2_E = gl.constexpr(1.4426950408889634)


@gluon.jit
def capped(products, cap):
    """tanh(products cap), as `kernels.tile.scores.capped` where that is not FINE."""
    power = gl.exp2(products * (cap * (2.0 * LOG2_E)))
    inverse = gl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=r,r", [1.0 + power], dtype=gl.float32, is_pure=True, pack=1
    )
    return 1.0 - 2.0 * inverse


@gluon.jit
def sloped(products, slope, distances):
    """products less the slope, in their units, times the distance of query and key."""
    return products - slope * gl.abs(distances.to(gl.float32))


@gluon.jit
def ends_with_sink(running_max, running_sum, sink, scale_log2):
    """What multiplies a row's O, and its lse, with its head's sink, in units of log2."""
    highest = running_max * scale_log2
    top = gl.maximum(highest, sink)
    offset = gl.where(top == float("-inf"), 0.0, top)
    scaled = gl.exp2(highest - offset)
    total = running_sum * scaled + gl.exp2(sink - offset)
    return gl.where(total == 0.0, 0.0, scaled / total), (top + gl.log2(total)) * LN_2


@gluon.constexpr_function
def rounding_asm(dtype):
    """PTX that rounds two float32 into one register of two 16-bit numbers, the first in its lower half."""
    return f"cvt.rn.{'f16x2' if dtype == gl.float16 else 'bf16x2'}.f32 $0, $2, $1;"


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
def softmax_step(
    S, running_max, running_sum, scale_log2, CHAINS: gl.constexpr, ALL_SEE: gl.constexpr
):  # fmt: skip
    """Online softmax of a block: P, the new maximum and sum, and the factor that rescales what was there."""
    new_max = gl.maximum(running_max, _row_max(S, CHAINS))
    offset = new_max * scale_log2
    if not ALL_SEE:  # a row may have seen no key yet
        offset = gl.where(new_max == float("-inf"), 0.0, offset)
    alpha = gl.exp2(running_max * scale_log2 - offset)
    P = gl.exp2(S * scale_log2 - offset[:, None])
    return P, new_max, running_sum * alpha + gl.sum(P, axis=1), alpha


@gluon.jit
def _of_block(first, BLOCK_KV: gl.constexpr):
    """The first weights of a key block with 0 for the others."""
    if first.shape[1] < BLOCK_KV:
        both = gl.join(first, gl.zeros_like(first))
        weights = both.permute((0, 2, 1)).reshape([ROWS, BLOCK_KV])
    else:
        weights = first
    return weights


@gluon.jit
def weights_of(P, Q, OUT: gl.constexpr, PAIRED: gl.constexpr, BLOCK_KV: gl.constexpr):
    """P of a key block, or of its first keys, rounded as Q is, as wgmma's left operand.

    PAIRED rounds two at a time: by itself ptxas may pair them the wrong way round, and turn each in the loop.
    """
    if PAIRED:
        ASM: gl.constexpr = rounding_asm(Q.dtype)
        P = gl.inline_asm_elementwise(ASM, "=r,r,r", [P], dtype=Q.dtype, is_pure=True, pack=2)
    return as_operand(_of_block(P.to(Q.dtype), BLOCK_KV), Q.dtype, OUT)
