"""Attention as tutorials write it: block pointers, two stages for the mask, autotuned, lse in base 2 as M."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK_M": 32, "BLOCK_N": wide}, num_warps=4) for wide in (16, 32)]


@triton.autotune(CONFIGS, key=["N_CTX", "HEAD_DIM"])
@triton.jit
def forward(Q, K, V, sm_scale, M, Out, stride_z, stride_h, stride_m, stride_k, H, N_CTX: tl.constexpr,
            HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
            FIRST: tl.constexpr):  # fmt: skip
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    start = (off_hz // H).to(tl.int64) * stride_z + (off_hz % H).to(tl.int64) * stride_h
    rows = (N_CTX, HEAD_DIM)
    steps = (stride_m, stride_k)
    own = (start_m * BLOCK_M, 0)
    Q_block = tl.make_block_ptr(Q + start, rows, steps, own, (BLOCK_M, HEAD_DIM), (1, 0))
    O_block = tl.make_block_ptr(Out + start, rows, steps, own, (BLOCK_M, HEAD_DIM), (1, 0))
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    q = tl.load(Q_block)
    for STAGE in tl.static_range(FIRST, 3):  # before the diagonal and on it, or all keys
        V_block = tl.make_block_ptr(V + start, rows, steps, (0, 0), (BLOCK_N, HEAD_DIM), (1, 0))
        K_block = tl.make_block_ptr(
            K + start, (HEAD_DIM, N_CTX), (stride_k, stride_m), (0, 0), (HEAD_DIM, BLOCK_N), (0, 1)
        )
        lo = 0 if STAGE < 2 or FIRST == 2 else start_m * BLOCK_M
        hi = N_CTX if FIRST == 2 else (start_m + STAGE - 1) * BLOCK_M
        K_block = tl.advance(K_block, (0, lo))
        V_block = tl.advance(V_block, (lo, 0))
        for start_n in range(lo, hi, BLOCK_N):
            start_n = tl.multiple_of(start_n, BLOCK_N)
            k = tl.load(K_block)
            qk = tl.dot(q, k) * qk_scale
            if STAGE == 2 and FIRST == 1:
                qk += tl.where(offs_m[:, None] >= (start_n + offs_n[None, :]), 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            p = tl.math.exp2(qk - m_ij[:, None])
            alpha = tl.math.exp2(m_i - m_ij)
            l_i = l_i * alpha + tl.sum(p, 1)
            v = tl.load(V_block)
            acc = tl.dot(p.to(tl.float16), v, acc * alpha[:, None])
            m_i = m_ij
            V_block = tl.advance(V_block, (BLOCK_N, 0))
            K_block = tl.advance(K_block, (0, BLOCK_N))
    tl.store(M + off_hz * N_CTX + offs_m, m_i + tl.math.log2(l_i))
    tl.store(O_block, (acc / l_i[:, None]).to(Out.type.element_ty))


def attention(q, k, v, causal, sm_scale):
    out = torch.empty_like(q)
    batch, heads, length, head_dim = q.shape
    M = torch.empty((batch, heads, length), dtype=torch.float32)

    def grid(arguments):
        return triton.cdiv(length, arguments["BLOCK_M"]), batch * heads, 1

    rest = {"N_CTX": length, "HEAD_DIM": head_dim, "FIRST": 1 if causal else 2}
    forward[grid](q, k, v, sm_scale, M, out, *q.stride(), heads, **rest)
    return out
