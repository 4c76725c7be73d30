"""Kernels for keys that lie in pages: attention over them by splits, and new keys put behind the last ones.

A sequence's keys lie in pages of PAGE keys, which its row of the block table names in order; PAGE is 0 where
one page holds them all. Lengths and tables are read on the GPU, so that a CUDA graph replays with new ones.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from kernels.algorithms.split_kv import row_offsets
from kernels.tile.scores import capped, sink_of, sloped
from kernels.tile.tile import (
    LOG2_E,
    inlined,
    log_sum_exp,
    matmul,
    narrowed,
    normalised,
    online_softmax_update,
)


@inlined
def length_of(place, capacity):
    """The keys of a sequence, of whole numbers of any width: from 0 to what its pages hold."""
    return tl.maximum(tl.minimum(tl.load(place), capacity), 0).to(tl.int32)


@inlined
def slots_of(keys, PAGE: tl.constexpr):
    """Where in its page each key lies."""
    if PAGE == 0:
        return keys
    else:
        return keys % PAGE


@inlined
def slots_in(key_block, PAGE: tl.constexpr, BLOCK_KV: tl.constexpr):
    """`slots_of` a block's keys; where it holds whole pages they are the same of every block."""
    lanes = tl.arange(0, BLOCK_KV)
    if PAGE != 0 and BLOCK_KV % PAGE == 0:
        return lanes % PAGE
    elif PAGE % BLOCK_KV == 0:
        return slots_of(key_block * BLOCK_KV, PAGE) + lanes
    else:
        return slots_of(key_block * BLOCK_KV + lanes, PAGE)


@inlined
def page_of(table, stride, keys, wanted, PAGE: tl.constexpr):
    """The page that holds each key, int64; the table's entry of one that is not wanted is not looked at."""
    if PAGE == 0:
        return tl.load(table + keys * 0, wanted, other=0).to(tl.int64)
    else:
        return tl.load(table + keys // PAGE * stride, wanted, other=0).to(tl.int64)


@inlined
def pages_of(table, stride, key_block, high, PAGE: tl.constexpr, BLOCK_KV: tl.constexpr):
    """The page of each of a block's keys before high, int64: one where a page holds them all."""
    first = key_block * BLOCK_KV
    if PAGE % BLOCK_KV == 0:
        return page_of(table, stride, first, first < high, PAGE)
    elif BLOCK_KV % PAGE == 0:
        page = first // PAGE + tl.arange(0, BLOCK_KV) // PAGE
        return tl.load(table + page * stride, page * PAGE < high, other=0).to(tl.int64)
    else:
        keys = first + tl.arange(0, BLOCK_KV)
        return page_of(table, stride, keys, keys < high, PAGE)


@inlined
def row_starts(strides, pages, slots):
    """Offsets of keys at these slots of their pages."""
    return pages * strides[0] + slots.to(tl.int64) * strides[1]


@inlined
def load_rows(head, strides, starts, wanted, columns, HEAD_DIM: tl.constexpr, WHOLE: tl.constexpr):
    """[keys, columns] of a head of a cache, of keys that start there; zero if not wanted, unless WHOLE."""
    pointers = head + starts[:, None] + columns.to(tl.int64)[None, :] * strides[3]
    if columns.shape[0] > HEAD_DIM:
        return tl.load(pointers, wanted[:, None] & (columns[None, :] < HEAD_DIM), other=0.0)
    elif WHOLE:
        return tl.load(pointers)
    else:
        return tl.load(pointers, wanted[:, None], other=0.0)


@inlined
def seen_of(queries, seq_q, length, left, right):
    """(first key, end, position) of queries, the last of which stands at the last of so many keys."""
    position = queries + (length - seq_q)
    first = tl.minimum(tl.maximum(position - left, 0), length)
    return first, tl.minimum(tl.maximum(position + right + 1, 0), length), position


class PagedTile(NamedTuple):
    """What the kernel over pages is compiled for; PAGE 0: one has all keys. APART: whole blocks first.

    OVERLAPS: what combines the splits may be made ready while they end.
    """

    PAGE: int
    ALIKE: bool
    APART: bool
    TMA: bool
    HEAD_DIM: int
    BLOCK_D: int
    BLOCK_Q: int
    BLOCK_KV: int
    FINE: bool
    OVERLAPS: bool


@inlined
def attend_pages(
    q, caches, cache_strides, table, kv_head, state, span, bounds, view, slope, score, columns,
    TILE: tl.constexpr, MASK: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Take stop - start key blocks into a softmax: from start on, but at gap_start so many are left out.

    caches: K and V, which point to a head, or with TMA describe all of them. table: its row, and its stride.
    span: (start, stop, gap_start, gap). bounds: some queries see the keys low to high - 1, all see full_low
    to full_high - 1. MASK: "none" of the blocks has hidden keys, "all" are looked at for some, or the
    "edges", all but those from full_low to full_high.
    """
    PAGE: tl.constexpr = TILE.PAGE
    BLOCK_KV: tl.constexpr = TILE.BLOCK_KV
    k_cache, v_cache = caches
    k_strides, v_strides = cache_strides
    table, table_stride = table
    running_max, running_sum, accumulator = state
    start, stop, gap_start, gap = span
    low, high, full_low, full_high = bounds
    ahead = start + tl.where(start >= gap_start, gap, 0)
    pages = pages_of(table, table_stride, ahead, high, PAGE, BLOCK_KV)
    for index in range(start, stop):
        key_block = index + tl.where(index >= gap_start, gap, 0)
        keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
        if TMA:
            slot = slots_of(key_block * BLOCK_KV, PAGE)
            place = [pages.to(tl.int32), kv_head, slot, 0]
            k = k_cache.load(place).reshape(BLOCK_KV, TILE.HEAD_DIM)
            v = v_cache.load(place).reshape(BLOCK_KV, TILE.HEAD_DIM)
        else:
            wanted = (keys >= low) & (keys < high)
            slots = slots_in(key_block, PAGE, BLOCK_KV)
            k_rows = row_starts(k_strides, pages, slots)
            v_rows = k_rows if TILE.ALIKE else row_starts(v_strides, pages, slots)
            k = load_rows(k_cache, k_strides, k_rows, wanted, columns, TILE.HEAD_DIM, MASK == "none")
            v = load_rows(v_cache, v_strides, v_rows, wanted, columns, TILE.HEAD_DIM, MASK == "none")
        ahead = index + 1 + tl.where(index + 1 >= gap_start, gap, 0)
        pages = pages_of(table, table_stride, ahead, high, PAGE, BLOCK_KV)
        products = sloped(capped(matmul(q, tl.trans(k)), score[1], TILE.FINE), slope, view, keys[None, :])
        if MASK == "all":
            products = tl.where(
                (keys[None, :] >= view[0]) & (keys[None, :] < view[1]), products, float("-inf")
            )
        elif MASK == "edges":  # noqa: SIM102 (known when compiling, what follows is not)
            if (key_block * BLOCK_KV < full_low) | (key_block * BLOCK_KV + BLOCK_KV > full_high):
                seen = (keys[None, :] >= view[0]) & (keys[None, :] < view[1])
                products = tl.where(seen, products, float("-inf"))
        running_max, running_sum, accumulator, _alpha = online_softmax_update(
            products, v, running_max, running_sum, accumulator, score[0]
        )
    return running_max, running_sum, accumulator


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "capacity", "added", "left", "right", "splits"])
def paged_kernel(
    q, k_cache, v_cache, table_and_lengths, parts, sinks_and_slopes, k_tiles, v_tiles, strides,
    heads, kv_heads, seq_q, capacity, added, left, right, splits, score, TILE: tl.constexpr,
):  # fmt: skip
    """One program a split of a block of rows, as in `split_kv`; 0 and -inf where it has no key."""
    BLOCK_KV: tl.constexpr = TILE.BLOCK_KV
    q_strides, k_strides, v_strides, table_strides, partial_strides, split_stride, lse_split_stride = strides
    block_table, lengths = table_and_lengths
    partial, partial_lse = parts
    group = heads // kv_heads
    row_count = group * seq_q
    row_blocks = tl.cdiv(row_count, TILE.BLOCK_Q)
    split = tl.program_id(0) % splits
    row_block = row_blocks - 1 - tl.program_id(0) // splits % row_blocks  # where causal, the last see most
    kv_head = tl.program_id(0) // splits // row_blocks % kv_heads
    batch = tl.program_id(0) // splits // row_blocks // kv_heads
    rows = row_block * TILE.BLOCK_Q + tl.arange(0, TILE.BLOCK_Q)
    queries = rows // group
    members = rows % group
    columns = tl.arange(0, TILE.BLOCK_D)
    inside = (rows[:, None] < row_count) & (columns[None, :] < TILE.HEAD_DIM)
    q_places = row_offsets(q_strides, kv_head, queries, members, columns, group)
    q_tile = tl.load(q + batch.to(tl.int64) * q_strides[0] + q_places, inside, other=0.0)
    k_head = k_cache + kv_head.to(tl.int64) * k_strides[2]
    v_head = v_cache + kv_head.to(tl.int64) * v_strides[2]
    table = block_table + batch.to(tl.int64) * table_strides[0]
    running_max = tl.full([TILE.BLOCK_Q], float("-inf"), tl.float32)
    running_sum = tl.full([TILE.BLOCK_Q], 0.0, tl.float32)
    if sinks_and_slopes[0] is not None:  # once a row
        running_max, running_sum = sink_of(
            sinks_and_slopes[0], kv_head * group + members, (rows >= 0) & (split == 0)
        )
    accumulator = tl.full([TILE.BLOCK_Q, TILE.BLOCK_D], 0.0, tl.float32)

    length = tl.minimum(length_of(lengths + batch, capacity) + added, capacity)
    first_keys, ends, positions = seen_of(tl.minimum(queries, seq_q - 1)[:, None], seq_q, length, left, right)
    view = (first_keys, ends, positions)
    slope = None
    if sinks_and_slopes[1] is not None:
        steep = tl.load(
            sinks_and_slopes[1] + batch * heads + kv_head * group + members, rows < row_count, other=0.0
        )
        slope = steep[:, None] * (LOG2_E / score[0])
    first = row_block * TILE.BLOCK_Q // group
    last = (tl.minimum(row_block * TILE.BLOCK_Q + TILE.BLOCK_Q, row_count) - 1) // group
    low, full_high, _ = seen_of(first, seq_q, length, left, right)
    full_low, high, _ = seen_of(last, seq_q, length, left, right)
    start = low // BLOCK_KV
    stop = tl.where(high > low, tl.cdiv(high, BLOCK_KV), start)
    share = tl.cdiv(stop - start, splits)
    start = start + split * share
    stop = tl.minimum(stop, start + share)
    row_of_table = (table, table_strides[1])
    caches = (k_head, v_head)
    cache_strides = (k_strides, v_strides)
    state = (running_max, running_sum, accumulator)
    if TILE.APART:
        whole_start = tl.minimum(tl.maximum(tl.cdiv(full_low, BLOCK_KV), start), stop)
        whole_stop = tl.maximum(tl.minimum(full_high // BLOCK_KV, stop), whole_start)
        whole = whole_stop - whole_start
        if TILE.TMA:  # noqa: SIM108 (an expression would have one type)
            whole_caches = (k_tiles, v_tiles)
        else:
            whole_caches = caches
        state = attend_pages(
            q_tile, whole_caches, cache_strides, row_of_table, kv_head, state,
            (whole_start, whole_stop, whole_stop, 0), (low, high, 0, 0), view, slope, score, columns,
            TILE, "none", TILE.TMA,
        )  # fmt: skip
        state = attend_pages(
            q_tile, caches, cache_strides, row_of_table, kv_head, state,
            (start, stop - whole, whole_start, whole), (low, high, 0, 0), view, slope, score, columns,
            TILE, "all", False,
        )  # fmt: skip
    else:
        state = attend_pages(
            q_tile, caches, cache_strides, row_of_table, kv_head, state,
            (start, stop, stop, 0), (low, high, full_low, full_high), view, slope, score, columns,
            TILE, "edges", False,
        )  # fmt: skip
    running_max, running_sum, accumulator = state
    if TILE.OVERLAPS:
        tl.extra.cuda.gdc_launch_dependents()

    partial_batch = partial + split.to(tl.int64) * split_stride + batch.to(tl.int64) * partial_strides[0]
    partial_rows = partial_batch + row_offsets(partial_strides, kv_head, queries, members, columns, group)
    tl.store(partial_rows, narrowed(normalised(accumulator, running_sum), partial.dtype.element_ty), inside)
    lse_batch = partial_lse + split.to(tl.int64) * lse_split_stride + batch.to(tl.int64) * (heads * seq_q)
    lse_rows = (kv_head * group + members) * seq_q + queries
    tl.store(lse_batch + lse_rows, log_sum_exp(running_max, running_sum), rows < row_count)


@inlined
def copy_rows(new, new_strides, cache, strides, at, columns, HEAD_DIM: tl.constexpr):
    """Rows of a [batch, heads, keys, head_dim] tensor into slots of pages of a cache, where wanted."""
    inside = at[5][:, None] & (columns[None, :] < HEAD_DIM)
    across = columns.to(tl.int64)[None, :]
    read = at[0] * new_strides[0] + at[1] * new_strides[1] + at[2] * new_strides[2]
    tile = tl.load(new + read[:, None] + across * new_strides[3], inside, other=0.0)
    written = at[3] * strides[0] + at[4].to(tl.int64) * strides[1] + at[1] * strides[2]
    tl.store(cache + written[:, None] + across * strides[3], tile, inside)


@triton.jit(do_not_specialize=["kv_heads", "capacity", "added"])
def append_kernel(
    k_new, v_new, k_cache, v_cache, block_table, lengths, k_new_strides, v_new_strides, k_strides, v_strides,
    table_strides, kv_heads, capacity, added,
    PAGE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """One program ROWS rows of a sequence's new keys and values, of all key heads, into its pages."""
    row_blocks = tl.cdiv(added * kv_heads, ROWS)
    batch = (tl.program_id(0) // row_blocks).to(tl.int64)
    rows = tl.program_id(0) % row_blocks * ROWS + tl.arange(0, ROWS)
    new = (rows // kv_heads).to(tl.int64)
    head = (rows % kv_heads).to(tl.int64)
    columns = tl.arange(0, BLOCK_D)
    keys = length_of(lengths + batch, capacity) + rows // kv_heads
    wanted = (rows < added * kv_heads) & (keys < capacity)
    table = block_table + batch * table_strides[0]
    pages, slots = page_of(table, table_strides[1], keys, wanted, PAGE), slots_of(keys, PAGE)
    at = (batch, head, new, pages, slots, wanted)
    copy_rows(k_new, k_new_strides, k_cache, k_strides, at, columns, HEAD_DIM)
    copy_rows(v_new, v_new_strides, v_cache, v_strides, at, columns, HEAD_DIM)
