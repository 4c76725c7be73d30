"""What a consumer has of a tile, or of a piece of one where the last tiles are cut, see `Schedule`."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

from kernels.hopper.warp_group import LN_2, ROWS, accumulator_layout, beside


@gluon.jit
def _leave(out, partial, row):
    """Store O of a piece as it is, from a row of `partial` on."""
    HEAD_DIM: gl.constexpr = out.shape[1]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM)
    rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, OUT))[:, None]
    columns = gl.arange(0, HEAD_DIM, layout=gl.SliceLayout(0, OUT))[None, :]
    gl.store(partial + (rows * HEAD_DIM + columns), out)


@gluon.jit
def store_or_leave(
    state, Q_block, output, tile, place, row, schedule, scale_log2, CONSUMER: gl.constexpr
):  # fmt: skip
    """Divide by the row sums, and store O and the log-sum-exp: a piece's in its slot, all rows of it.

    With the order of `consumer._store`, the wait for P V in the loop over keys would come too soon.
    """
    out, running_max, running_sum = state
    out_tensor, lse, partial, partial_lse = output
    batch, head = place
    HEAD_DIM: gl.constexpr = Q_block.shape[3]
    OUT: gl.constexpr = accumulator_layout(HEAD_DIM)
    out = out * beside(gl.where(running_sum == 0.0, 0.0, 1.0 / running_sum), OUT)
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, accumulator_layout(schedule.BLOCK_KV)))
    inside = row + rows < schedule.seq_q
    lse_rows = lse + (batch * schedule.heads + head) * schedule.seq_q + row
    if tile >= schedule.whole:
        slot_row = schedule.slot(tile) * schedule.BLOCK_Q + CONSUMER * ROWS
        _leave(out, partial, slot_row)
        lse_rows = partial_lse + slot_row
        inside = rows >= 0
    else:
        Q_block.reshape([ROWS, HEAD_DIM]).store(out.to(Q_block.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(out_tensor, [batch, head, row, 0], Q_block)
    row_lse = (running_max * scale_log2 + gl.log2(running_sum)) * LN_2
    gl.store(lse_rows + rows, row_lse, mask=inside)
