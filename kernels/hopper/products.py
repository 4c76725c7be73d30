"""The two products of a key block, Q K^T and P V, as a warp group issues them."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma

from kernels.hopper.warp_group import ROWS, accumulator_layout


@gluon.constexpr_function
def parts_of(columns, held):
    """(first, columns) of the products that make one of so many columns, the held ones being the first.

    Each is of a power of two of them, as wgmma's operands are, and begins at a multiple of that.
    """
    first, parts = held, [(0, held)] if held else []
    while first < columns:
        most = 1 << (columns - first).bit_length() - 1
        parts.append((first, min(most, first & -first) if first else most))
        first += parts[-1][1]
    return parts


@gluon.constexpr_function
def part_of(columns, held, part, place):
    return parts_of(columns, held)[part][place]


@gluon.constexpr_function
def part_count(columns, held):
    return len(parts_of(columns, held))


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
def start_scores(Q, held, keys, visit, HELD: gl.constexpr, KEYS: gl.constexpr, COLUMNS: gl.constexpr):
    """Issue Q K^T of the first KEYS of this visit's keys; the first HELD columns of Q are in registers.

    Of K and Q the first COLUMNS are multiplied. K lies in one block, or in several of its columns.
    """
    WIDTH: gl.constexpr = keys.blocks.shape[-1]
    PIECES: gl.constexpr = keys.blocks.shape[0] // keys.full.shape[0]
    S = gl.zeros([ROWS, KEYS], gl.float32, accumulator_layout(KEYS))
    if PIECES > 1:
        for piece in gl.static_range(PIECES):
            K = keys.block(visit, piece).reshape([keys.blocks.shape[-2], WIDTH]).slice(0, KEYS, dim=0)
            some = Q.slice(piece * WIDTH, WIDTH, dim=1)
            S = warpgroup_mma(some, K.permute((1, 0)), S, use_acc=piece > 0, is_async=True)
    else:
        K = keys.block(visit).reshape([keys.blocks.shape[-2], WIDTH]).slice(0, KEYS, dim=0)
        S = start_product(Q, K, S, False, COLUMNS, HELD, held)
    return S


@gluon.jit
def start_product(
    left, right, product, ADDED: gl.constexpr, COLUMNS: gl.constexpr, HELD: gl.constexpr = 0, held=0
):
    """Issue left right^T of their first COLUMNS, ADDED to `product` or not: so many products as parts.

    held is the first HELD columns of left, in registers.
    """
    for part in gl.static_range(part_count(COLUMNS, HELD)):
        others = right.slice(part_of(COLUMNS, HELD, part, 0), part_of(COLUMNS, HELD, part, 1), dim=1)
        if part == 0 and HELD > 0:
            some = held
        else:
            some = left.slice(part_of(COLUMNS, HELD, part, 0), part_of(COLUMNS, HELD, part, 1), dim=1)
        product = warpgroup_mma(
            some, others.permute((1, 0)), product, use_acc=ADDED or part > 0, is_async=True
        )
    return product


@gluon.jit
def start_output(P, values, visit, out):
    """Issue out + P V of this visit's key block."""
    V = values.block(visit).reshape([values.blocks.shape[3], values.blocks.shape[4]])
    return warpgroup_mma(P, V, out, is_async=True)
