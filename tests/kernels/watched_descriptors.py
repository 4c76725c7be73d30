"""Attention with descriptors made in the kernel: all heads are rows of one matrix."""

import torch
import triton
import triton.language as tl


@triton.jit
def forward(q_ptr, k_ptr, v_ptr, o_ptr, N, rows, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            CAUSAL: tl.constexpr):  # fmt: skip
    block = tl.program_id(0)
    start = tl.program_id(1) * N
    q_rows = tl.make_tensor_descriptor(q_ptr, shape=[rows, D], strides=[D, 1], block_shape=[BM, D])
    k_rows = tl.make_tensor_descriptor(k_ptr, shape=[rows, D], strides=[D, 1], block_shape=[BN, D])
    v_rows = tl.make_tensor_descriptor(v_ptr, shape=[rows, D], strides=[D, 1], block_shape=[BN, D])
    o_rows = tl.make_tensor_descriptor(o_ptr, shape=[rows, D], strides=[D, 1], block_shape=[BM, D])
    q = q_rows.load([start + block * BM, 0])
    queries = block * BM + tl.arange(0, BM)
    m = tl.full([BM], -float("inf"), tl.float32)
    l = tl.zeros([BM], tl.float32)  # noqa: E741
    acc = tl.zeros([BM, D], tl.float32)
    stop = (block + 1) * BM if CAUSAL else N
    for key in tl.range(0, stop, BN):
        scores = tl.dot(q, k_rows.load([start + key, 0]).T) * (scale * 1.44269504)
        if CAUSAL:
            scores = tl.where(queries[:, None] >= key + tl.arange(0, BN)[None, :], scores, -float("inf"))
        new = tl.maximum(m, tl.max(scores, 1))
        p = tl.exp2(scores - new[:, None])
        alpha = tl.exp2(m - new)
        l = l * alpha + tl.sum(p, 1)  # noqa: E741
        v = v_rows.load([start + key, 0])
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = new
    o_rows.store([start + block * BM, 0], (acc / l[:, None]).to(o_ptr.dtype.element_ty))


def attention(q, k, v, scale, block_q, block_kv, causal):
    out = torch.empty_like(q)
    batch, heads, length, head_dim = q.shape
    grid = triton.cdiv(length, block_q), batch * heads
    forward[grid](q, k, v, out, length, batch * heads * length, scale, head_dim, block_q, block_kv, causal)
    return out
