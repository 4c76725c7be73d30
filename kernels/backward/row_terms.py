"""What the backward pass needs of every query row, before the kernels that differentiate."""

import triton
import triton.language as tl

from kernels.backward.places import OF_QUERIES
from kernels.call.call import Call
from kernels.launch.launch import launch
from kernels.launch.relaunch import Relaunch
from kernels.tile.tile import LOG2_E, head_start, load_tile, widened
from kernels.tilings.flash2 import warps


@triton.jit(do_not_specialize=["heads", "seq_q", "padded_seq_q"])
def row_terms_kernel(
    out, d_out, lse, d_lse, delta, lse_log2, sums, places, out_strides, d_out_strides, heads, seq_q,
    padded_seq_q, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, SUMS_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    OF_QUERIES: tl.constexpr,
):  # fmt: skip
    """One program a query block of a head: delta and lse_log2 [batch, heads, padded_seq_q].

    d_lse, if any, is taken off delta: d lse / dS = P, so it enters dS = P o (dP - delta) as delta does. sums,
    if any, is cleared: [batch, heads, padded_seq_q, SUMS_D], for others to add to. places, if not None, says
    where blocks of packed sequences are, see `kernels.backward.places`. lse_log2 is 0 for rows that see no
    key and +inf past the last row: their P is 0 then, not NaN.
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
        num_stages=1,
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
