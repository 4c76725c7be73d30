"""What every kernel shares: loads of ragged tiles, masks, loop bounds, the online-softmax update.

A query i stands at key position i + offset, offset = seq_kv - seq_q, so the last query stands at the last
key. CAUSAL lets it see the keys up to its position. WINDOWED narrows that to the last `window` of them, its
own included; a window only looks back, so it comes with CAUSAL. Positions are int32, offsets into memory
int64.
"""

from typing import NamedTuple

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
LOG2_E = tl.constexpr(1.4426950408889634)  # exp(x) = exp2(x LOG2_E): it is folded into the scale
LN_2 = tl.constexpr(0.6931471805599453)
ROUND_ASM = tl.constexpr(  # four float32 numbers as e4m3 in 32 bits
    "{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, $2, $1;"
    " cvt.rn.satfinite.e4m3x2.f32 high, $4, $3; mov.b32 $0, {low, high}; }"
)


class Tile(NamedTuple):
    """What a kernel is compiled for: its blocks and the mask, V's head dim maybe another than Q's and K's.

    RANGES: whether these say what is seen, and there may be other terms. FINE: see `scores.capped`. FEW: rows
    at a time where some are not finite, which is seldom, and must take no more registers than the rest.
    """

    HEAD_DIM: int
    BLOCK_D: int
    V_DIM: int
    BLOCK_V: int
    BLOCK_Q: int
    BLOCK_KV: int
    CAUSAL: bool
    WINDOWED: bool
    RANGES: bool = False
    FINE: bool = False
    FEW: int = 16


def inlined(function):
    """A kernel's function; plain in the interpreter, where `triton.jit` would patch anew at each call."""
    return function if INTERPRETED else triton.jit(function)


@inlined
def head_start(tensor, strides, batch, head):
    """Pointer to the first element of a head of a [batch, heads, rows, columns] tensor."""
    return tensor + batch.to(tl.int64) * strides[0] + head.to(tl.int64) * strides[1]


@inlined
def tile_pointers(start, strides, rows, columns):
    """[rows, columns] pointers into the head that starts at `start`."""
    return start + rows.to(tl.int64)[:, None] * strides[2] + columns.to(tl.int64)[None, :] * strides[3]


@inlined
def load_tile(start, strides, rows, columns, row_count, COLUMN_COUNT: tl.constexpr, RAGGED: tl.constexpr):
    """A [rows, columns] tile, zero outside the head; RAGGED when rows may lie past row_count."""
    pointers = tile_pointers(start, strides, rows, columns)
    if columns.shape[0] > COLUMN_COUNT:
        inside = (rows[:, None] < row_count) & (columns[None, :] < COLUMN_COUNT)
        tile = tl.load(pointers, mask=inside, other=0.0)
    elif RAGGED:
        tile = tl.load(pointers, mask=rows[:, None] < row_count, other=0.0)
    else:
        tile = tl.load(pointers)
    return tile


@inlined
def store_tile(start, strides, rows, columns, row_count, column_count, tile):
    """Write the part of a float32 tile that lies inside the head, rounded to the tensor's dtype."""
    inside = (rows[:, None] < row_count) & (columns[None, :] < column_count)
    tl.store(
        tile_pointers(start, strides, rows, columns), narrowed(tile, start.dtype.element_ty), mask=inside
    )


@inlined
def narrowed(tile, DTYPE: tl.constexpr):
    """A float32 tile rounded to nearest even; the interpreter's own cast to bfloat16 truncates."""
    if INTERPRETED and tl.bfloat16 == DTYPE:
        bits = tile.to(tl.uint32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return rounded.to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        return tile.to(DTYPE)


@inlined
def widened(tile):
    """A tile in float32, without the interpreter's own slow cast from bfloat16."""
    if INTERPRETED and tile.dtype == tl.bfloat16:
        return (tile.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    else:
        return tile.to(tl.float32)


@inlined
def matmul(a, b):
    """a b in float32: tensor cores for 16-bit tiles, true float32 (not TF32) for 32-bit ones."""
    if INTERPRETED:  # its tl.dot takes bfloat16 for integers
        return tl.dot(widened(a), widened(b))
    else:
        return tl.dot(a, b, input_precision="ieee")


@inlined
def any_not_finite(tile):
    """Whether a number of a tile is NaN or infinite."""
    return tl.max(tl.where(tl.abs(widened(tile)) < float("inf"), 0, 1)) > 0


@inlined
def added_of_seen(
    total, a, seen, tile_of, rows, columns, row_count, COLUMN_COUNT: tl.constexpr,
):  # fmt: skip
    """total + a b, where a NaN in a row of b counts in the rows alone that see it: 0 NaN is NaN."""
    tile = load_tile(tile_of[0], tile_of[1], rows, columns, row_count, COLUMN_COUNT, True)
    numbers = widened(tile)
    finite = tl.abs(numbers) < float("inf")
    total += matmul(a, narrowed(tl.where(finite, numbers, 0.0), tile.dtype))
    lanes = tl.arange(0, rows.shape[0])
    for lane in range(0, tl.max(tl.max(tl.where(finite, 0, 1), 1), 0) * rows.shape[0]):
        here = lanes[None, :] == lane
        factor = tl.sum(tl.where(here, widened(a), 0.0), 1)
        sees = tl.max(tl.where(here & seen, 1, 0), 1) > 0
        row = tl.sum(tl.where((lanes[:, None] == lane) & ~finite, numbers, 0.0), 0)
        reached = sees[:, None] & ~(tl.abs(row) < float("inf"))[None, :]
        total += tl.where(reached, factor[:, None] * row[None, :], 0.0)
    return total


@inlined
def visible(queries, keys, sizes, TILE: tl.constexpr):
    """Which keys each query sees, both broadcast; sizes, here and below: (seq_q, seq_kv, window)."""
    seq_q, seq_kv, window = sizes
    position = queries + (seq_kv - seq_q)
    seen = keys < seq_kv
    if TILE.CAUSAL:
        seen = seen & (keys <= position)
    if TILE.WINDOWED:
        seen = seen & (keys > position - window)
    return seen


@inlined
def keys_of(first, last, sizes, TILE: tl.constexpr):
    """Keys low to high - 1 are seen by some, full_low to full_high - 1 by all queries from first to last."""
    seq_q, seq_kv, window = sizes
    offset = seq_kv - seq_q
    low = 0
    full_low = 0
    high = seq_kv
    full_high = seq_kv
    if TILE.CAUSAL:
        high = tl.minimum(seq_kv, last + offset + 1)
        full_high = tl.maximum(0, tl.minimum(seq_kv, first + offset + 1))
    if TILE.WINDOWED:
        low = tl.maximum(0, first + offset - window + 1)
        full_low = tl.maximum(0, last + offset - window + 1)
    return low, high, full_low, full_high


@inlined
def key_blocks_of(first, last, sizes, TILE: tl.constexpr):
    """The key blocks queries first to last visit, start to stop - 1; full_start to full_stop - 1 unmasked."""
    low, high, full_low, full_high = keys_of(first, last, sizes, TILE)
    start = low // TILE.BLOCK_KV
    stop = tl.maximum(start, tl.cdiv(tl.maximum(high, 0), TILE.BLOCK_KV))
    full_start = tl.minimum(tl.cdiv(full_low, TILE.BLOCK_KV), stop)
    full_stop = tl.maximum(full_start, full_high // TILE.BLOCK_KV)
    return start, full_start, full_stop, stop


@inlined
def query_blocks_of(key_block, sizes, TILE: tl.constexpr):
    """The query blocks that visit a key block, start to stop - 1; full_start to full_stop - 1 unmasked."""
    seq_q, seq_kv, window = sizes
    first_seer = key_block * TILE.BLOCK_KV - (
        seq_kv - seq_q
    )  # the first query that sees the block's first key
    start = 0
    full_start = 0
    stop = tl.cdiv(seq_q, TILE.BLOCK_Q)
    full_stop = seq_q // TILE.BLOCK_Q
    if TILE.CAUSAL:
        start = tl.maximum(0, first_seer) // TILE.BLOCK_Q
        full_start = tl.cdiv(tl.maximum(0, first_seer + TILE.BLOCK_KV - 1), TILE.BLOCK_Q)
    if TILE.WINDOWED:  # the first query that sees no longer any, or no longer all, of the block's keys
        stop = tl.minimum(stop, tl.cdiv(tl.maximum(0, first_seer + TILE.BLOCK_KV + window - 1), TILE.BLOCK_Q))
        full_stop = tl.minimum(full_stop, tl.maximum(0, first_seer + window) // TILE.BLOCK_Q)
    full_start = tl.minimum(full_start, stop)
    ragged = (key_block + 1) * TILE.BLOCK_KV > seq_kv
    full_stop = tl.where(ragged, full_start, tl.maximum(full_start, full_stop))
    return start, full_start, full_stop, stop


@inlined
def softmax_step(products, running_max, running_sum, scale_log2):
    """m and l of rows with one more tile, alpha, and the weights: see `online_softmax_update`."""
    new_max = tl.maximum(running_max, tl.max(products, 1) * scale_log2)
    reference = tl.where(
        new_max == float("-inf"), 0.0, new_max
    )  # a row that has seen no key: -inf - -inf is NaN
    alpha = tl.exp2(running_max - reference)
    weights = tl.exp2(products * scale_log2 - reference[:, None])
    return new_max, running_sum * alpha + tl.sum(weights, 1), alpha, weights


@inlined
def online_softmax_update(products, v, running_max, running_sum, accumulator, scale_log2):
    """Take one more tile into the softmax of its rows; returns m in units of log2, l, O l, and alpha.

    products [Br, Bc]: q k^T, -inf where masked; v [Bc, d]; alpha [Br] rescaled what was there. Milakov and
    Gimelshein, arXiv 1805.02867.
    """
    new_max, new_sum, alpha, weights = softmax_step(products, running_max, running_sum, scale_log2)
    accumulator = accumulator * alpha[:, None] + matmul(narrowed(weights, v.dtype), v)
    return new_max, new_sum, accumulator, alpha


@inlined
def normalised(accumulator, running_sum):
    """The attention of the rows; 0 for those that have seen no key."""
    return accumulator / tl.where(running_sum == 0.0, 1.0, running_sum)[:, None]


@inlined
def log_sum_exp(running_max, running_sum):
    """The natural log-sum-exp from a maximum in units of log2; -inf for rows that have seen no key."""
    return running_max * LN_2 + tl.log(tl.where(running_sum == 0.0, 1.0, running_sum))


@inlined
def store_probe(probe, tile, valid, running_max, running_sum, alpha, BLOCK_Q: tl.constexpr):
    """Write m (natural units), l and alpha after a tile into the probe's three [tiles, BLOCK_Q] buffers."""
    at = tile.to(tl.int64) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    tl.store(probe[0] + at, running_max * LN_2, mask=valid)
    tl.store(probe[1] + at, running_sum, mask=valid)
    tl.store(probe[2] + at, alpha, mask=valid)
