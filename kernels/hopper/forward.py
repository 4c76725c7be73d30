"""FlashAttention-3's forward pass on Hopper, in Gluon: a warp that copies, warp groups that compute.

A block of threads stays on its SM and takes tiles, 64 query rows for each of its consumers, until none is
left. The producer warp copies Q, K and V into shared memory by TMA. Each consumer warp group issues the
scores of key block j together with P V of key block j - 1; its softmax runs under the products of the others.
Source: Shah et al., FlashAttention-3, arXiv 2407.08608, algorithm 2.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared

from kernels.hopper.buffer_queue import blocks_for, make_queue
from kernels.hopper.consumer import consume
from kernels.hopper.producer import produce
from kernels.hopper.schedule import Schedule
from kernels.hopper.tiles import make_tile_blocks
from kernels.hopper.warp_group import ROWS, start

KEYS_BARRIER = gl.constexpr(11)  # and the one after it: a buffer of K each
VALUES_BARRIER = gl.constexpr(13)


@gluon.jit(
    do_not_specialize=[
        "batch_heads", "heads_per_kv_head", "heads_together", "query_blocks", "window",
        "splits", "whole", "share",
    ]
)  # fmt: skip
def attention_kernel(
    q_tensor, k_tensor, v_tensor, out_tensor, lse, counter, blocks, others,
    batch_heads, heads_per_kv_head, heads_together, query_blocks, window, score, splits, whole, share, beyond,
    HOW: gl.constexpr,
):  # fmt: skip
    """One block of threads: the tiles it draws from `counter`, a zeroed int32 of this launch alone.

    HOW has the mask and ways to compute the same, see `Schedule`, and the kernel's buffers and registers.
    Tensors are descriptors [batch, heads, seq, head_dim] of blocks [1, 1, rows, head_dim]; lse is float32.
    blocks, where TRACED, is int64 [tiles, 3] to write them down in, see `kernels.launch.block_times`.
    splits, if not None: parts of the keys, over each of which out_tensor, a pointer to float32, and lse have
    all batches. whole and share, if not None: see `Schedule`; pieces leave their O in partial, float32
    [slots, rows of a tile, head_dim], and their lse in partial_lse, the first two of the others. These are
    tensors that few calls have, or None: sinks, float32 [heads], slopes, out, which is out_tensor as a
    pointer for sequences that end within a tile, starts and key_starts. Of them, of score's cap and
    per_slope, and of ahead, prefix and sequences in beyond, see `Schedule` too; the last there are out's
    strides.
    """
    scale_log2, cap, per_slope = score
    partial, partial_lse, sinks, slopes, out, starts, key_starts = others if HOW.OTHERS else (None,) * 7
    ahead, prefix, sequences, out_strides = beyond if HOW.OTHERS else (None,) * 4
    CONSUMERS: gl.constexpr = HOW.CONSUMERS
    TURNS: gl.constexpr = HOW.TURNS
    HELD: gl.constexpr = HOW.HELD
    CAUSAL: gl.constexpr = HOW.CAUSAL
    NAMED: gl.constexpr = HELD or (TURNS and not CAUSAL)
    BLOCK_KV: gl.constexpr = k_tensor.block_type.shape[2]
    schedule = Schedule(
        batch_heads, q_tensor.shape[1], heads_per_kv_head, heads_together, query_blocks,
        q_tensor.shape[2], k_tensor.shape[2], window, splits, whole, share, None, None,
        ahead, prefix, cap, slopes, per_slope, None, starts, key_starts, sequences, None, None,
        CONSUMERS * ROWS, BLOCK_KV, HOW,
    )  # fmt: skip
    q_blocks = blocks_for(q_tensor, HOW.Q_BUFFERS * CONSUMERS)
    k_blocks = blocks_for(k_tensor, HOW.KV_BUFFERS * HOW.K_PIECES)
    v_blocks = blocks_for(v_tensor, HOW.KV_BUFFERS)
    next_tiles = make_tile_blocks(8 if starts is not None else (4 if HOW.PLACED else 1))
    queues = (
        make_queue(q_blocks, HOW.Q_BUFFERS, CONSUMERS),
        # by name where Q is held: elsewhere that was up to 2% slower, but for V where all take equal turns
        make_queue(k_blocks, HOW.KV_BUFFERS, CONSUMERS, KEYS_BARRIER if HELD else 0),
        make_queue(v_blocks, HOW.KV_BUFFERS, CONSUMERS, VALUES_BARRIER if NAMED else 0),
        make_queue(next_tiles, 2, CONSUMERS),
    )
    fence_async_shared()

    if share is not None:
        output = (out_tensor, lse, partial, partial_lse)
    elif starts is not None:
        output = (out_tensor, lse, out, out_strides)
    else:
        output = (out_tensor, lse)
    start(
        consume, (output, queues, schedule, scale_log2, blocks, sinks),
        [(produce, ((q_tensor, k_tensor, v_tensor), queues, schedule, counter, not CAUSAL, False))], HOW,
    )  # fmt: skip
