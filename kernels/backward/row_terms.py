"""What the backward pass needs of every query row, before the kernels that differentiate."""

import triton
import triton.language as tl

from kernels.call.call import Call
from kernels.launch.launch import launch, warps
from kernels.launch.relaunch import Relaunch
from kernels.tile.tile import LOG2_E, head_start, load_tile, widened


@triton.jit(do_not_specialize=["heads", "seq_q", "padded_seq_q"])
def row_terms_kernel(
    out, d_out, lse, delta, lse_log2, sums, out_strides, d_out_strides, heads, seq_q, padded_seq_q,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    """One program a query block of a head: delta and lse_log2 [batch, heads, padded_seq_q].

    sums, if any, is cleared: [batch, heads, padded_seq_q, BLOCK_D], for others to add to.
    lse_log2 is 0 for rows that see no key and +inf past the last row: their P is 0 then, not NaN.
    """
    query_blocks = tl.cdiv(padded_seq_q, BLOCK_Q)
    batch_head = tl.program_id(0) // query_blocks
    batch = batch_head // heads
    head = batch_head % heads
    queries = tl.program_id(0) % query_blocks * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns = tl.arange(0, BLOCK_D)
    out_head = head_start(out, out_strides, batch, head)
    d_out_head = head_start(d_out, d_out_strides, batch, head)
    out_tile = widened(load_tile(out_head, out_strides, queries, columns, seq_q, HEAD_DIM, True))
    d_out_tile = widened(load_tile(d_out_head, d_out_strides, queries, columns, seq_q, HEAD_DIM, True))
    natural = tl.load(
        lse + batch_head.to(tl.int64) * seq_q + queries, mask=queries < seq_q, other=float("inf")
    )
    rows = batch_head.to(tl.int64) * padded_seq_q + queries
    tl.store(delta + rows, tl.sum(out_tile * d_out_tile, 1))
    tl.store(lse_log2 + rows, tl.where(natural == float("-inf"), 0.0, natural) * LOG2_E)
    if sums is not None:
        nothing = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
        tl.store(sums + rows[:, None] * BLOCK_D + columns[None, :], nothing)


def store_row_terms(out, d_out, lse, delta, lse_log2, sums, call: Call) -> Relaunch | None:
    """Fill delta, lse_log2, and sums [*delta.shape, padded head_dim] if any; returns what does so again."""
    padded_seq_q = delta.shape[2]
    return launch(
        row_terms_kernel,
        padded_seq_q // call.block_q * call.batch * call.heads,
        call,
        (out, d_out, lse, delta, lse_log2, sums),
        num_warps=warps(call.block_q, call.out_dim),
        num_stages=1,
        padded_seq_q=padded_seq_q,
        out_strides=out.stride(),
        d_out_strides=d_out.stride(),
        heads=call.heads,
        seq_q=call.seq_q,
        HEAD_DIM=call.out_dim,
        BLOCK_D=call.padded_out_dim,
        BLOCK_Q=call.block_q,
    )
