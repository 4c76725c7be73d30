"""What a query sees where the plain masks do not say it, and what becomes of its products before the softmax.

`ranges` is int32 [batch, 3, seq_q]: the first key that a query sees, one past the last, and the key position
at which it stands. Neither of the first two falls from one query to the next, so a block of queries visits
the key blocks from its first query's first key to its last query's last. `seers` is the same seen from the
keys, int32 [batch, 2, seq_kv]: the first query that sees a key, and the first one after that which no longer
does.

`terms` is (ranges, seers, sinks, slopes) where TILE.RANGES, of which all but the ranges may be None; Triton
before 3.7 does not compare such a tuple with None. A `view` is what a block of queries needs of this: (first
keys, ends, positions), each [queries, 1] or [1, queries], as the products are laid out. It is None where the
plain masks hold. A slope and a cap are None where there is none; they stand beside the view, for a tuple made
in a kernel holds no None before Triton 3.7.
"""

import triton.language as tl

from kernels.tile.tile import LOG2_E, inlined, key_blocks_of, query_blocks_of, visible


@inlined
def seen_by(ranges, batch, queries, seq_q):
    """(first key, end, position) of queries; those past the last one have the last one's."""
    rows = ranges + batch.to(tl.int64) * (3 * seq_q) + tl.minimum(queries, seq_q - 1)
    return tl.load(rows), tl.load(rows + seq_q), tl.load(rows + 2 * seq_q)


@inlined
def key_blocks_in(terms, batch, first, last, sizes, TILE: tl.constexpr):
    """`key_blocks_of`, or where there are ranges, as these say what the queries first to last see."""
    if not TILE.RANGES:
        return key_blocks_of(first, last, sizes, TILE)
    else:
        return _key_blocks_in(terms.ranges, batch, first, last, sizes[0], TILE.BLOCK_KV)


@inlined
def _key_blocks_in(ranges, batch, first, last, seq_q, BLOCK_KV: tl.constexpr):
    low, full_high, _ = seen_by(ranges, batch, first, seq_q)
    full_low, high, _ = seen_by(ranges, batch, last, seq_q)
    start = low // BLOCK_KV
    stop = tl.where(high > low, tl.cdiv(high, BLOCK_KV), start)
    full_start = tl.minimum(tl.cdiv(full_low, BLOCK_KV), stop)
    full_stop = tl.maximum(full_start, full_high // BLOCK_KV)
    return start, full_start, full_stop, stop


@inlined
def query_blocks_in(terms, batch, key_block, sizes, TILE: tl.constexpr):
    """`query_blocks_of`, or where there are ranges, as the seers say which queries see the block's keys."""
    if not TILE.RANGES:
        return query_blocks_of(key_block, sizes, TILE)
    else:
        return _query_blocks_in(terms.seers, batch, key_block, sizes[1], TILE.BLOCK_Q, TILE.BLOCK_KV)


@inlined
def _query_blocks_in(seers, batch, key_block, seq_kv, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr):
    keys = seers + batch.to(tl.int64) * (2 * seq_kv)
    first = key_block * BLOCK_KV
    last = tl.minimum(first + BLOCK_KV, seq_kv) - 1
    start = tl.load(keys + first) // BLOCK_Q
    stop = tl.maximum(start, tl.cdiv(tl.load(keys + seq_kv + last), BLOCK_Q))
    full_start = tl.minimum(tl.cdiv(tl.load(keys + last), BLOCK_Q), stop)
    full_stop = tl.maximum(full_start, tl.load(keys + seq_kv + first) // BLOCK_Q)
    return start, full_start, full_stop, stop


@inlined
def slope_of(slopes, heads, scale_log2):
    """What a product falls by per key of distance, so that its score falls by the slope of its head."""
    return tl.load(slopes + heads) * (LOG2_E / scale_log2)


@inlined
def capped(products, cap, FINE: tl.constexpr):
    """tanh(products cap), which its scale makes scores of, where there is a cap; FINE: to the last digit."""
    if cap is None:
        return products
    elif FINE:
        return tanh(products * cap)
    else:  # from exponentials: the hardware's tanh keeps eleven bits
        return 1.0 - 2.0 / (1.0 + tl.exp2(products * (cap * (2.0 * LOG2_E))))


@inlined
def tanh(x):
    """Within six roundings: Eigen's quotient of polynomials (generic_fast_tanh_float), 1 from 7.9 on."""
    x = tl.clamp(x, -7.90531110763549805, 7.90531110763549805, tl.PropagateNan.ALL)
    square = x * x
    above = 2.00018790482477e-13 - 2.76076847742355e-16 * square
    above = square * above - 8.60467152213735e-11
    above = square * above + 5.12229709037114e-08
    above = square * above + 1.48572235717979e-05
    above = square * above + 6.37261928875436e-04
    above = square * above + 4.89352455891786e-03
    below = 1.18534705686654e-04 + 1.19825839466702e-06 * square
    below = square * below + 2.26843463243900e-03
    below = square * below + 4.89352518554385e-03
    return x * above / below


@inlined
def uncapped(d_products, products, cap):
    """What comes of a gradient on the way back through `capped`, which gave these products."""
    if cap is None:
        return d_products
    else:
        return d_products * (1.0 - products * products)


@inlined
def sloped(products, slope, view, keys):
    """products less the slope times the distance of query and key (Press et al., arXiv 2108.12409)."""
    if slope is None:
        return products
    else:
        return products - slope * tl.abs(view[2] - keys).to(tl.float32)


@inlined
def masked(products, queries, keys, sizes, view, TILE: tl.constexpr):
    """products with -inf where the query does not see the key; queries and keys broadcast to them."""
    if view is None:  # noqa: SIM108 (an expression has both sides compiled)
        seen = visible(queries, keys, sizes, TILE)
    else:
        seen = (keys >= view[0]) & (keys < view[1])
    return tl.where(seen, products, float("-inf"))


@inlined
def sink_of(sinks, heads, counts):
    """m (in log2) and l of rows that begin with their head's sink, a logit without a key, if it counts."""
    logits = tl.load(sinks + heads) * LOG2_E
    return tl.where(counts, logits, float("-inf")), tl.where(counts, 1.0, 0.0)
