"""The two products of a key block, Q K^T and P V, as a warp group issues them."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma

from kernels.hopper.warp_group import ROWS, accumulator_layout


@gluon.constexpr_function
def doublings(start, end):
    """How often `start` has to be doubled for `end`; 0 for 0."""
    return (end // start).bit_length() - 1 if start else 0


@gluon.jit
def held_columns(Q, HELD: gl.constexpr, BLOCK_KV: gl.constexpr):
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
def start_scores(Q, held, keys, visit, HELD: gl.constexpr, KEYS: gl.constexpr):
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
def start_output(P, values, visit, out):
    """Issue out + P V of this visit's key block."""
    V = values.block(visit).reshape([values.blocks.shape[3], values.blocks.shape[4]])
    return warpgroup_mma(P, V, out, is_async=True)
