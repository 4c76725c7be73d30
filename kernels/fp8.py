"""Attention in FP8 (e4m3) on Hopper: which problems it serves, the pass that quantises, and the launches."""

import math

import torch

from kernels.arguments import ceil_div
from kernels.flash3 import L2_FOR_KEYS, _outer_strides, _zeroed_counter
from kernels.launch import multiprocessors, on_device

_TWO = {"CONSUMERS": 2, "CONSUMER_REGISTERS": 240, "PRODUCER_REGISTERS": 24}
_THREE = {"CONSUMERS": 3, "CONSUMER_REGISTERS": 160, "PRODUCER_REGISTERS": 32}
TILING = {
    64: {"BLOCK_KV": 128, "Q_BUFFERS": 2, "KV_BUFFERS": 4, "TURNS": True, "PROMOTE": False, "EARLY": True, "LANES": True, **_THREE},
    128: {"BLOCK_KV": 128, "Q_BUFFERS": 2, "KV_BUFFERS": 4, "TURNS": True, "PROMOTE": False, "EARLY": True, "LANES": True, **_TWO},
    256: {"BLOCK_KV": 128, "Q_BUFFERS": 1, "KV_BUFFERS": 2, "TURNS": False, "PROMOTE": False, "EARLY": True, "LANES": True, **_TWO},
}
QUERIES = 64  # rows of Q that share a scale: those of a warp group


def attention_fp8(q, k, v, *, causal=False, scale=None, rotate=True, scales="block", tiling=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    tiling = tiling or TILING[q.shape[-1]]
    quantised = quantise(q, k, v, rotate=rotate, scales=scales, block_kv=tiling["BLOCK_KV"])
    return attend(q, quantised, causal, scale, tiling)


def quantise(q, k, v, *, rotate, scales, block_kv):
    from kernels.fp8_quantise import quantise_rows_kernel, quantise_values_kernel

    batch, heads, seq_q, head_dim = q.shape
    kv_heads, seq_kv = k.shape[1:3]
    q_blocks, kv_blocks = ceil_div(seq_q, QUERIES), ceil_div(seq_kv, block_kv)
    q8, k8 = (torch.empty(t.shape, dtype=torch.float8_e4m3fn, device=q.device) for t in (q, k))
    v8 = torch.empty(
        (batch, kv_heads, head_dim, kv_blocks * block_kv), dtype=torch.float8_e4m3fn, device=q.device
    )
    q_scales = torch.empty((batch, heads, q_blocks), dtype=torch.float32, device=q.device)
    k_scales, v_scales = (
        torch.empty((batch, kv_heads, kv_blocks), dtype=torch.float32, device=q.device) for _ in range(2)
    )
    given = [None] * 3
    if scales == "tensor":
        if rotate:
            raise ValueError("rotated numbers have scales by block")
        given = [t.abs().amax().float() for t in (q, k, v)]
    for tensor, to, into, block, one in (
        (q, q8, q_scales, QUERIES, given[0]),
        (k, k8, k_scales, block_kv, given[1]),
    ):
        quantise_rows_kernel[(into.numel(),)](
            tensor, to, into, one, tensor.stride(), to.stride(), tensor.shape[1], tensor.shape[2],
            HEAD_DIM=head_dim, BLOCK=block, ROTATE=rotate, num_warps=4 if block * head_dim <= 8192 else 8,
        )  # fmt: skip
    quantise_values_kernel[(v_scales.numel(),)](
        v, v8, v_scales, given[2], v.stride(), v8.stride(), kv_heads, seq_kv,
        HEAD_DIM=head_dim, BLOCK=block_kv, num_warps=8,
    )  # fmt: skip
    return q8, k8, v8, q_scales, k_scales, v_scales


def attend(q, quantised, causal, scale, tiling):
    from kernels.flash3_fp8_kernel import attention_fp8_kernel

    q8, k8, v8, *scales = quantised
    batch, heads, seq_q, head_dim = q.shape
    kv_heads, seq_kv = k8.shape[1:3]
    out = torch.empty_like(q)
    lse = torch.empty((batch, heads, seq_q), dtype=torch.float32, device=q.device)
    chosen = dict(tiling)
    block_kv = chosen.pop("BLOCK_KV")
    query_blocks = ceil_div(seq_q, QUERIES * chosen["CONSUMERS"])
    heads_per_kv_head = heads // kv_heads
    arguments = {
        "batch_heads": batch * heads,
        "heads": heads,
        "heads_per_kv_head": heads_per_kv_head,
        "heads_together": heads_per_kv_head * max(1, L2_FOR_KEYS // (2 * seq_kv * head_dim)),
        "query_blocks": query_blocks,
        "seq_q": seq_q,
        "seq_kv": seq_kv,
        "scale_log2": scale * math.log2(math.e),
        "CAUSAL": causal,
        "ALIGNED": not causal or (seq_kv - seq_q) % QUERIES == 0,
        **chosen,
    }
    blocks = ((QUERIES, head_dim), (block_kv, head_dim), (head_dim, block_kv), (QUERIES, head_dim))
    descriptors = [_descriptor(t, (1, 1, *b)) for t, b in zip((q8, k8, v8, out), blocks, strict=True)]
    tensors = (*descriptors, lse, *scales, _zeroed_counter(q.device))
    programs = min(multiprocessors(q.device), batch * heads * query_blocks)
    with on_device(q.device):
        attention_fp8_kernel[(programs,)](*tensors, **arguments, num_warps=4)
    return out, lse


def _descriptor(tensor, block):
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    dtype = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float8_e4m3fn: gl.float8e4nv}
    layout = gl.NVMMASharedLayout.get_default_for(list(block), dtype[tensor.dtype])
    return TensorDescriptor(tensor, list(tensor.shape), [*_outer_strides(tensor), 1], list(block), layout)
