"""Attention for few queries and many keys: the keys are split over the GPU, partial results are combined.

Also known as Flash-Decoding. One program takes a range of key blocks for a block of rows; the query heads
that share a key head are rows of one tile, so that each key and value is read once. Row r of a key head is
query r // group of head r % group. Each program leaves O normalised over its own keys, and the lse that
says how much that counts.
"""

from dataclasses import replace

import torch
import triton
import triton.language as tl

from kernels.algorithms.flash2 import attend, attend_few, loop_stages
from kernels.algorithms.record import Algorithm, Asked, Tensors
from kernels.call.arguments import MAX_SPLITS
from kernels.call.call import Call, ceil_div, split_blocks
from kernels.call.device import device_of
from kernels.call.terms import Terms, score_of, tensors_of, tile_of
from kernels.launch.launch import address, interpreted, launch, multiprocessors, options_given, output_like
from kernels.tile.scores import key_blocks_in, seen_by, sink_of, slope_of
from kernels.tile.tile import any_not_finite, head_start, inlined, log_sum_exp, narrowed, normalised
from kernels.tilings.flash2 import warps
from kernels.tilings.split_kv import AT_ONCE, COMBINED, FEWEST_COLUMNS

MIN_KEYS = 512  # with fewer, combining costs more than splitting gains
KEYS_A_ROW = 4  # of a split, at least: its O, in float32, is written and read once more for every row
PACKED = 4  # times fewer rows in the tiles of split_kv, padding included, than in flash2's: it is done first
PROGRAMS_PER_SM = 2
RESIDENT_TILE = 128 * 128  # keys times head dim of the tiles that an SM's shared memory holds three pairs of
COMBINE_PROGRAMS_PER_SM = 8


@inlined
def row_offsets(strides, kv_head, queries, members, columns, group):
    """[rows, columns] offsets from the start of a batch of a [batch, heads, seq_q, columns] tensor."""
    heads = (kv_head * group + members).to(tl.int64)
    rows = heads * strides[1] + queries.to(tl.int64) * strides[2]
    return rows[:, None] + columns.to(tl.int64)[None, :] * strides[3]


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window", "splits"])
def split_kernel(
    q, k, v, partial, partial_lse, terms, strides, heads, kv_heads, seq_q, seq_kv, window, splits, score,
    TILE: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """One program a split of a block of rows of a key head: its O, and its natural lse."""
    q_strides, k_strides, v_strides, partial_strides, split_stride, lse_split_stride = strides
    sizes = (seq_q, seq_kv, window)
    group = heads // kv_heads
    row_count = group * seq_q
    row_blocks = tl.cdiv(row_count, TILE.BLOCK_Q)
    split = tl.program_id(0) % splits
    row_block = tl.program_id(0) // splits % row_blocks
    kv_head = tl.program_id(0) // splits // row_blocks % kv_heads
    batch = tl.program_id(0) // splits // row_blocks // kv_heads
    rows = row_block * TILE.BLOCK_Q + tl.arange(0, TILE.BLOCK_Q)
    queries = rows // group
    members = rows % group
    columns, v_columns = tl.arange(0, TILE.BLOCK_D), tl.arange(0, TILE.BLOCK_V)
    inside = (rows[:, None] < row_count) & (columns[None, :] < TILE.HEAD_DIM)
    q_places = batch.to(tl.int64) * q_strides[0] + row_offsets(
        q_strides, kv_head, queries, members, columns, group
    )
    q_tile = tl.load(q + q_places, inside, other=0.0)
    k_head = head_start(k, k_strides, batch, kv_head)
    v_head = head_start(v, v_strides, batch, kv_head)
    running_max = tl.full([TILE.BLOCK_Q], float("-inf"), tl.float32)
    running_sum = tl.full([TILE.BLOCK_Q], 0.0, tl.float32)
    if TILE.RANGES:  # noqa: SIM102 (there is nothing of it else)
        if terms.sinks is not None:  # once a row
            counts = (rows >= 0) & (split == 0)
            running_max, running_sum = sink_of(terms.sinks, kv_head * group + members, counts)
    accumulator = tl.full([TILE.BLOCK_Q, TILE.BLOCK_V], 0.0, tl.float32)

    first = row_block * TILE.BLOCK_Q // group
    last = (tl.minimum(row_block * TILE.BLOCK_Q + TILE.BLOCK_Q, row_count) - 1) // group
    view = None
    slope = None
    if TILE.RANGES:
        row_heads = (batch * heads + kv_head * group + members)[:, None]
        view = seen_by(terms.ranges, batch, queries[:, None], seq_q)
        slope = None if terms.slopes is None else slope_of(terms.slopes, row_heads, score[0])
    start, full_start, full_stop, stop = key_blocks_in(terms, batch, first, last, sizes, TILE)
    share = tl.cdiv(stop - start, splits)
    start = start + split * share
    stop = tl.minimum(stop, start + share)
    key_tensor, value_tensor = (k_head, k_strides, columns), (v_head, v_strides, v_columns)
    state, span = (running_max, running_sum, accumulator), (start, stop, full_start, full_stop)
    running_max, running_sum, accumulator = attend(
        q_tile, key_tensor, value_tensor, state, span,
        queries, sizes, score, view, slope, None, 0, TILE, "edges", True, False,
    )  # fmt: skip
    if OVERLAPS:  # what combines the splits may be made ready
        tl.extra.cuda.gdc_launch_dependents()
    if TILE.RANGES:  # noqa: SIM102 (known when compiling, what follows is not)
        if any_not_finite(accumulator):  # perhaps of a sequence that only shares a tile
            running_max, running_sum, accumulator = attend_few(
                q_tile, key_tensor, value_tensor, state, span,
                queries, sizes, score, view, slope, TILE,
            )  # fmt: skip

    partial_batch = partial + split.to(tl.int64) * split_stride + batch.to(tl.int64) * partial_strides[0]
    partial_rows = partial_batch + row_offsets(partial_strides, kv_head, queries, members, v_columns, group)
    inside = (rows[:, None] < row_count) & (v_columns[None, :] < TILE.V_DIM)
    tl.store(partial_rows, narrowed(normalised(accumulator, running_sum), partial.dtype.element_ty), inside)
    lse_batch = partial_lse + split.to(tl.int64) * lse_split_stride + batch.to(tl.int64) * (heads * seq_q)
    lse_rows = (kv_head * group + members) * seq_q + queries
    tl.store(lse_batch + lse_rows, log_sum_exp(running_max, running_sum), rows < row_count)


@triton.jit(do_not_specialize=["splits", "heads", "seq_q", "row_count"])
def combine_kernel(
    partial, partial_lse, out, lse, out_strides, splits, heads, seq_q, row_count,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
    CHUNK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """One program COLUMNS of ROWS rows: lse = log sum of exp(lse_i), O = sum of exp(lse_i - lse) O_i.

    CHUNK splits at a time, which are asked for at once.
    """
    BLOCKS: tl.constexpr = BLOCK_D // COLUMNS
    rows = tl.program_id(0) // BLOCKS * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) % BLOCKS * COLUMNS + tl.arange(0, COLUMNS)
    valid = rows < row_count
    if OVERLAPS:
        tl.extra.cuda.gdc_wait()
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    accumulator = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, splits, CHUNK):
        some = (first + tl.arange(0, CHUNK))[None, :]
        present = valid[:, None] & (some < splits)
        places = some.to(tl.int64) * row_count + rows[:, None]
        parts = tl.load(partial_lse + places, present, other=float("-inf"))
        tile = tl.load(
            partial + places[:, :, None] * HEAD_DIM + columns[None, None, :],
            present[:, :, None] & (columns < HEAD_DIM)[None, None, :],
            other=0.0,
        )
        before = largest
        largest = tl.maximum(largest, tl.max(parts, 1))
        reference = tl.where(largest == float("-inf"), 0.0, largest)  # a row that sees no key: -inf - -inf
        weights, kept = tl.exp(parts - reference[:, None]), tl.exp(before - reference)
        total = total * kept + tl.sum(weights, 1)
        accumulator = accumulator * kept[:, None] + tl.sum(weights[:, :, None] * tile, 1)
    total = tl.where(total == 0.0, 1.0, total)
    batch_head = rows // seq_q
    batch = (batch_head // heads).to(tl.int64)
    head = (batch_head % heads).to(tl.int64)
    starts = batch * out_strides[0] + head * out_strides[1] + (rows % seq_q).to(tl.int64) * out_strides[2]
    places = starts[:, None] + columns.to(tl.int64)[None, :] * out_strides[3]
    combined = narrowed(accumulator / total[:, None], out.dtype.element_ty)
    tl.store(out + places, combined, valid[:, None] & (columns < HEAD_DIM)[None, :])
    tl.store(lse + rows, largest + tl.log(total), valid & (tl.program_id(0) % BLOCKS == 0))


def row_blocks(call: Call) -> int:
    """Blocks of rows of a key head: the queries of all heads that share it."""
    return ceil_div(call.heads // call.kv_heads * call.seq_q, call.block_q)


def visible_keys(call: Call) -> int:
    """The most keys that the queries of a block see."""
    if call.window is None:
        return call.seq_kv
    return min(call.seq_kv, call.window + min(call.seq_q, call.block_q) - 1)


def split_count(call: Call, processors: int) -> int:
    """Equal splits that give every SM the programs that it holds, each long enough to be worth combining."""
    key_blocks = ceil_div(visible_keys(call), call.block_kv)
    shortest = ceil_div(KEYS_A_ROW * call.block_q, call.block_kv)
    longest = max(call.block_q, call.block_kv)
    resident = max(1, min(PROGRAMS_PER_SM, RESIDENT_TILE // (longest * call.widest)))
    programs = call.batch * call.kv_heads * row_blocks(call)
    most = max(1, min(resident * processors // programs, key_blocks // shortest, MAX_SPLITS))
    return ceil_div(key_blocks, ceil_div(key_blocks, most))


def worthwhile(unsplit: Call, split: Call, processors: int) -> bool:
    """Whether flash2's call would leave half of the SMs idle or more, and there are keys enough to split."""
    enough = max(MIN_KEYS, split.block_q * min(split.head_dim, 128) // 2)
    return 2 * unsplit.programs <= processors and split.splits > 1 and visible_keys(split) >= enough


def packs(unsplit: Call, split: Call, processors: int) -> bool:
    """Whether heads share keys and split_kv, which takes their queries together, computes far fewer rows."""
    rows = row_blocks(split) * split.block_q
    padded = unsplit.programs * unsplit.block_q
    if split.heads == split.kv_heads or padded < PACKED * split.batch * split.kv_heads * rows:
        return False
    idle = 2 * unsplit.programs <= processors
    enough = rows * split.head_dim**2 // (512 if idle else 256)
    return unsplit.programs > processors or visible_keys(split) >= enough


def thin(split: Call) -> bool:
    """Whether the smallest tile holds all rows, and a narrow head has many keys: it is done first then."""
    return split.block_q * row_blocks(split) <= 16 and split.head_dim <= 64 and visible_keys(split) > MIN_KEYS


def split_kv(q, k, v, call: Call, terms: Terms | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """As `Algorithm.forward`, by call.splits splits."""
    splits = call.splits
    out = output_like(q, v)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    if splits == 1:
        _split(q, k, v, out[None], lse[None], call, terms)
    else:
        partial = torch.empty((splits, *out.shape), dtype=torch.float32, device=q.device)
        partial_lse = torch.empty((splits, *lse.shape), dtype=torch.float32, device=q.device)
        _split(q, k, v, partial, partial_lse, call, terms)
        combine_splits(partial, partial_lse, out, lse, call)
    return out, lse


def _split(q, k, v, partial, partial_lse, call: Call, terms: Terms | None) -> None:
    launch(
        split_kernel,
        call.batch * call.kv_heads * row_blocks(call) * partial.shape[0],
        call,
        (q, k, v, partial, partial_lse, tensors_of(terms)),
        num_warps=warps(call.block_q, call.out_dim),
        num_stages=loop_stages(call, q),
        strides=(q.stride(), k.stride(), v.stride(), *strides_of_parts(partial, partial_lse)),
        score=score_of(call, terms),
        splits=partial.shape[0],
        TILE=tile_of(call, terms),
        OVERLAPS=overlapping(q),
        **call.sizes,
    )


def strides_of_parts(partial, partial_lse) -> tuple:
    """Of a part's O, and from one part to the next of O and of lse."""
    return partial.stride()[1:], partial.stride(0), partial_lse.stride(0)


def combine_splits(partial, partial_lse, out, lse, call: Call) -> None:
    """Fill out and lse from those of each split, [splits, *their shapes] in float32.

    From a Hopper GPU on its launch overlaps the end of the one before.
    """
    tensors = partial, partial_lse, out, lse
    if (again := call.memory.get("combine")) and not options_given():
        again(*map(address, tensors))
        return
    rows, columns = COMBINED, call.padded_out_dim
    if not interpreted():
        rows, columns = _together(lse.numel(), columns, multiprocessors(out.device))
    overlaps = overlapping(out)
    again = launch(
        combine_kernel,
        ceil_div(lse.numel(), rows) * (call.padded_out_dim // columns),
        call,
        tensors,
        out_strides=out.stride(),
        splits=partial.shape[0],
        heads=call.heads,
        seq_q=call.seq_q,
        row_count=lse.numel(),
        HEAD_DIM=call.out_dim,
        BLOCK_D=call.padded_out_dim,
        COLUMNS=columns,
        ROWS=rows,
        CHUNK=min(1 << (call.splits - 1).bit_length(), max(1, AT_ONCE * FEWEST_COLUMNS // (rows * columns))),
        OVERLAPS=overlaps,
        **({"launch_pdl": True} if overlaps else {}),
    )
    if not options_given():
        call.memory["combine"] = again


def overlapping(tensor: torch.Tensor) -> bool:
    """Whether a kernel may start while the one before it ends."""
    return tensor.is_cuda and device_of(tensor.device).tma and not interpreted()


def _together(row_count: int, columns: int, processors: int) -> tuple[int, int]:
    """Rows and columns of a program of `combine_kernel`: few where that gives every SM some programs."""
    programs = COMBINE_PROGRAMS_PER_SM * processors
    rows = min(COMBINED, 1 << (max(1, row_count // programs).bit_length() - 1))
    while columns > FEWEST_COLUMNS and 2 * row_count * columns <= programs * rows * columns:
        row_count, columns = 2 * row_count, columns // 2
    return rows, columns


def prepared(call: Call, own_blocks: bool, tensors: Tensors, processors: int) -> Call:
    """With so many splits as give every SM its programs, unless they are given."""
    return call if call.splits is not None else replace(call, splits=split_count(call, processors))


def offered(own: Call, asked: Asked) -> tuple[Call, str] | None:
    """Where flash2 would leave half of the GPU idle, or few queries come from heads that share keys."""
    if not asked.on_gpu:
        return None
    if worthwhile(asked.call, own, asked.processors):
        return own, f"flash2 would start {asked.fallback.programs} programs on {asked.processors} SMs"
    if packs(asked.call, own, asked.processors):
        sharing = own.heads // own.kv_heads
        return own, f"it takes the queries of {sharing} heads that share their keys together"
    if thin(own) and not asked.features:
        return own, f"for {own.seq_q} queries its tiles of {own.block_q} rows waste least"
    return None


ALGORITHM = Algorithm(
    key="split_kv",
    order=5,
    forward=split_kv,
    blocks=split_blocks,
    most_splits=MAX_SPLITS,
    prepared=prepared,
    offers={2: offered},
    differentiable=True,
)
