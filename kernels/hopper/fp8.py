"""FlashAttention-3's forward pass on numbers of 8 bits: flash3's kernel, with e4m3 operands and their scales.

Q, K and V come as `fp8_quantise` leaves them.
Source: Shah et al., FlashAttention-3, arXiv 2407.08608, section 3.3.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared

from kernels.hopper.buffer_queue import blocks_for, make_queue
from kernels.hopper.fp8_consumer import consume
from kernels.hopper.producer import produce
from kernels.hopper.schedule import Schedule
from kernels.hopper.tiles import make_tile_blocks
from kernels.hopper.warp_group import ROWS, start


@gluon.jit(
    do_not_specialize=[
        "batch_heads", "heads", "heads_per_kv_head", "heads_together", "query_blocks", "seq_q", "seq_kv",
    ]
)  # fmt: skip
def attention_fp8_kernel(
    q_tensor, k_tensor, v_tensor, out_tensor, lse, q_scales, k_scales, v_scales, counter,
    batch_heads, heads, heads_per_kv_head, heads_together, query_blocks, seq_q, seq_kv, scale_log2,
    HOW: gl.constexpr,
):  # fmt: skip
    """One block of threads: the tiles it draws from `counter`, a zeroed int32 of this launch alone.

    q_tensor and k_tensor are descriptors [batch, heads, seq, head_dim] of e4m3, v_tensor of V transposed
    [batch, kv_heads, head_dim, seq]; out_tensor's is 16-bit, lse float32. Scales are float32 [batch, heads,
    blocks]: of 64 queries, of BLOCK_KV keys and values.
    """
    CONSUMERS: gl.constexpr = HOW.CONSUMERS
    HEAD_DIM: gl.constexpr = q_tensor.block_type.shape[3]
    BLOCK_KV: gl.constexpr = k_tensor.block_type.shape[2]
    schedule = Schedule(
        batch_heads, heads, heads_per_kv_head, heads_together, query_blocks, seq_q, seq_kv, seq_kv,
        None, None, None, None, None,
        None, None, None, None, None, None, None, None, None, None, None, CONSUMERS * ROWS, BLOCK_KV, HOW,
    )  # fmt: skip
    q_blocks = blocks_for(q_tensor, HOW.Q_BUFFERS * CONSUMERS)
    k_blocks = blocks_for(k_tensor, HOW.KV_BUFFERS)
    v_blocks = blocks_for(v_tensor, HOW.KV_BUFFERS)
    out_blocks = gl.allocate_shared_memory(
        out_tensor.dtype, [CONSUMERS, 1, 1, ROWS, HEAD_DIM], out_tensor.layout
    )
    next_tiles = make_tile_blocks(1)
    queues = (
        make_queue(q_blocks, HOW.Q_BUFFERS, CONSUMERS),
        make_queue(k_blocks, HOW.KV_BUFFERS, CONSUMERS),
        make_queue(v_blocks, HOW.KV_BUFFERS, CONSUMERS),
        make_queue(next_tiles, 2, CONSUMERS),
    )
    fence_async_shared()

    scales = (q_scales, k_scales, v_scales)
    start(
        consume, ((out_tensor, lse), out_blocks, queues, schedule, scale_log2, scales),
        [(produce, ((q_tensor, k_tensor, v_tensor), queues, schedule, counter, True, True))], HOW,
    )  # fmt: skip
