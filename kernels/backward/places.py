"""What comes before the backward pass: where packed sequences' blocks are, and what each query row needs.

Both are worked out on the device that has the lengths.

Blocks end where a sequence ends: sequence i, which begins at row s, has the numbers from s // block + i
on, at most one more than it has blocks. What follows the last sequence is one more, whose keys no query sees.
"""

import torch
import triton
import triton.language as tl

from kernels.call.call import Call, ceil_div
from kernels.call.device import outer_strides
from kernels.call.key_ranges import Seen
from kernels.launch.launch import launch
from kernels.launch.relaunch import Relaunch
from kernels.tile.tile import LOG2_E, head_start, load_tile, widened
from kernels.tilings.flash2 import warps

# of a block of keys: its first key in its sequence, that one's keys and queries, the first of each, and its
# first query block's number
OF_KEYS = 6
OF_QUERIES = 3  # of a block of queries: its first row, and where rows end, and those that see a key
AT_ONCE = 128  # numbers that a program looks up
FAR, WRAP = 2**30, 2**34  # rows, and numbers: whose product is a multiple of 2^64 bytes


def numbers_of(rows: int, block: int, sequences: int) -> int:
    """That blocks of so many sequences may have."""
    return rows // block + sequences + 1


def rows_of_batch(tensor: torch.Tensor) -> int | None:
    """By how many rows batches lie apart; None where they are no rows, or not one after another."""
    of_batch, _, of_row = outer_strides(tensor)
    if len(tensor) == 1:
        return tensor.shape[2]
    rows, rest = divmod(of_batch, of_row)
    return None if rest or rows < tensor.shape[2] else rows


def packed_shape(tensor: torch.Tensor) -> tuple[list[int], list[int]]:
    """Shape and strides by which a TMA descriptor of [batch, heads, seq, head_dim] has ends of sequences.

    A row is the sum of two coordinates, less FAR by a third, whose stride wraps around 64 bits: so the
    second can end at FAR where a sequence does, wherever that begins. Behind it TMA reads 0 and writes
    nothing. The first one counts the rows of all batches.
    """
    batch, heads, _, head_dim = tensor.shape
    _, of_head, of_row = outer_strides(tensor)
    shape = [2 * FAR - 1, batch * rows_of_batch(tensor) + 1, heads, FAR, head_dim]
    return shape, [WRAP - of_row, of_row, of_head, of_row, 1]


@triton.jit
def _edge(starts, sequence, most):
    """Where one begins: what lies on a GPU may be anything, and must not lead out of the tensors."""
    return tl.minimum(tl.maximum(tl.load(starts + sequence), 0), most).to(tl.int32)


@triton.jit
def _sequence_of(number, starts, sequences, rows, stride, BLOCK: tl.constexpr):
    """The sequence of each number of a block: the last whose first one is no larger."""
    sequence = tl.zeros_like(number)
    while stride > 0:
        later = tl.minimum(sequence + stride, sequences)
        begins = _edge(starts, later, rows) // BLOCK + later
        sequence = tl.where(begins <= number, later, sequence)
        stride = stride // 2
    return sequence


@triton.jit
def _span(starts, sequence, sequences, rows):
    """The first row of a sequence, its rows, and those that follow if it is the last one's end."""
    first = _edge(starts, sequence, rows)
    count = tl.maximum(_edge(starts, tl.minimum(sequence + 1, sequences), rows) - first, 0)
    return first, count, tl.where(sequence < sequences, count, rows - first)


@triton.jit(
    do_not_specialize=["sequences", "queries", "keys", "numbers_of_keys", "numbers_of_queries", "most"]
)
def places_kernel(
    starts, key_starts, of_keys, of_queries, sequences, queries, keys, numbers_of_keys, numbers_of_queries,
    most, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr, OF_KEYS: tl.constexpr, OF_QUERIES: tl.constexpr,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Fill of_keys [numbers_of_keys, OF_KEYS] and of_queries [numbers_of_queries, OF_QUERIES], int32."""
    number = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    own, there = of_keys + number * OF_KEYS, number < numbers_of_keys
    sequence = _sequence_of(number, key_starts, sequences, keys, most, BLOCK_KV)
    first_key, _, count = _span(key_starts, sequence, sequences, keys)
    first_query, seen_by, _ = _span(starts, sequence, sequences, queries)
    tl.store(own, (number - first_key // BLOCK_KV - sequence) * BLOCK_KV, there)
    tl.store(own + 1, count, there)
    tl.store(own + 2, seen_by, there)
    tl.store(own + 3, first_key, there)
    tl.store(own + 4, first_query, there)
    tl.store(own + 5, first_query // BLOCK_Q + sequence, there)

    own = of_queries + number * OF_QUERIES
    there = number < numbers_of_queries
    sequence = _sequence_of(number, starts, sequences, queries, most, BLOCK_Q)
    first, seeing, count = _span(starts, sequence, sequences, queries)
    tl.store(own, first + (number - first // BLOCK_Q - sequence) * BLOCK_Q, there)
    tl.store(own + 1, first + count, there)
    tl.store(own + 2, first + seeing, there)


def store_places(seen: Seen, of_keys: torch.Tensor, of_queries: torch.Tensor, call: Call) -> None:
    """Fill what `places_kernel` fills, for the blocks of a call."""
    sequences = len(seen.starts) - 1
    numbers = len(of_keys) // OF_KEYS, len(of_queries) // OF_QUERIES
    launch(
        places_kernel,
        ceil_div(max(numbers), AT_ONCE),
        call,
        (seen.starts, seen.key_starts, of_keys, of_queries),
        sequences=sequences,
        queries=call.seq_q,
        keys=call.seq_kv,
        numbers_of_keys=numbers[0],
        numbers_of_queries=numbers[1],
        most=1 << sequences.bit_length(),
        BLOCK_Q=call.block_q,
        BLOCK_KV=call.block_kv,
        OF_KEYS=OF_KEYS,
        OF_QUERIES=OF_QUERIES,
        AT_ONCE=AT_ONCE,
    )


@triton.jit(do_not_specialize=["heads", "seq_q", "padded_seq_q"])
def row_terms_kernel(
    out, d_out, lse, d_lse, delta, lse_log2, sums, places, out_strides, d_out_strides, heads, seq_q,
    padded_seq_q, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, SUMS_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    OF_QUERIES: tl.constexpr,
):  # fmt: skip
    """One program a query block of a head: delta and lse_log2 [batch, heads, padded_seq_q].

    d_lse, if any, is taken off delta: d lse / dS = P, so it enters dS = P o (dP - delta) as delta does.
    sums, if any, [batch, heads, padded_seq_q, SUMS_D], is cleared. lse_log2 is 0 for rows that see no key
    and +inf past the last row: their P is 0 then, not NaN.
    """
    query_blocks = tl.cdiv(padded_seq_q, BLOCK_Q)
    batch_head = tl.program_id(0) // query_blocks
    batch = batch_head // heads
    head = batch_head % heads
    block = tl.program_id(0) % query_blocks
    queries = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    padded, end = queries, seq_q
    if places is not None:
        queries = tl.load(places + block * OF_QUERIES) + tl.arange(0, BLOCK_Q)
        end = tl.load(places + block * OF_QUERIES + 2)
    columns = tl.arange(0, BLOCK_D)
    out_head = head_start(out, out_strides, batch, head)
    d_out_head = head_start(d_out, d_out_strides, batch, head)
    out_tile = widened(load_tile(out_head, out_strides, queries, columns, end, HEAD_DIM, True))
    d_out_tile = widened(load_tile(d_out_head, d_out_strides, queries, columns, end, HEAD_DIM, True))
    own = batch_head.to(tl.int64) * seq_q + queries
    natural = tl.load(lse + own, mask=queries < end, other=float("inf"))
    rows = batch_head.to(tl.int64) * padded_seq_q + padded
    row_delta = tl.sum(out_tile * d_out_tile, 1)
    if d_lse is not None:
        row_delta -= tl.load(d_lse + own, mask=queries < end, other=0.0)
    tl.store(delta + rows, row_delta)
    tl.store(lse_log2 + rows, tl.where(natural == float("-inf"), 0.0, natural) * LOG2_E)
    if sums is not None:
        nothing = tl.zeros([BLOCK_Q, SUMS_D], tl.float32)
        tl.store(sums + rows[:, None] * SUMS_D + tl.arange(0, SUMS_D)[None, :], nothing)


def store_row_terms(
    out, d_out, lse, d_lse, delta, lse_log2, call: Call, sums=None, places=None
) -> Relaunch | None:
    """Fill delta, lse_log2, and sums [*delta.shape, padded head_dim] if any; returns what does so again."""
    padded_seq_q = delta.shape[2]
    return launch(
        row_terms_kernel,
        padded_seq_q // call.block_q * call.batch * call.heads,
        call,
        (out, d_out, lse, d_lse, delta, lse_log2, sums, places),
        num_warps=warps(call.block_q, call.out_dim),
        padded_seq_q=padded_seq_q,
        out_strides=out.stride(),
        d_out_strides=d_out.stride(),
        heads=call.heads,
        seq_q=call.seq_q,
        HEAD_DIM=call.out_dim,
        BLOCK_D=call.padded_out_dim,
        SUMS_D=call.padded_head_dim,
        BLOCK_Q=call.block_q,
        OF_QUERIES=OF_QUERIES,
    )
