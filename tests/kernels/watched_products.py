"""Attention without a matrix product: one query per program, sums of products, heads that share keys."""

import torch
import triton
import triton.language as tl


@triton.jit
def forward(q, k, v, out, length, group, scale, D: tl.constexpr, BN: tl.constexpr):
    query = tl.program_id(0)
    head = tl.program_id(1)
    columns = tl.arange(0, D)
    row = (head * length + query) * D + columns
    q_row = tl.load(q + row).to(tl.float32) * scale
    m = float("-inf")
    l = 0.0  # noqa: E741
    acc = tl.zeros([D], tl.float32)
    for start in range(0, length, BN):
        keys = start + tl.arange(0, BN)
        inside = keys < length
        places = (head // group * length + keys)[:, None] * D + columns[None, :]
        k_tile = tl.load(k + places, mask=inside[:, None], other=0.0).to(tl.float32)
        scores = tl.where(inside, tl.sum(k_tile * q_row[None, :], 1), float("-inf"))
        new = tl.maximum(m, tl.max(scores, 0))
        p = tl.exp(scores - new)
        alpha = tl.exp(m - new)
        l = l * alpha + tl.sum(p, 0)  # noqa: E741
        v_tile = tl.load(v + places, mask=inside[:, None], other=0.0).to(tl.float32)
        acc = acc * alpha + tl.sum(p[:, None] * v_tile, 0)
        m = new
    tl.store(out + row, (acc / l).to(out.dtype.element_ty))


def attention(q, k, v, scale, block_kv):
    out = torch.empty_like(q)
    batch, heads, length, head_dim = q.shape
    group = heads // k.shape[1]
    forward[(length, batch * heads)](q, k, v, out, length, group, scale, head_dim, block_kv)
    return out
