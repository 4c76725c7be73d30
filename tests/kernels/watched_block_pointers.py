"""Attention as tutorials write it: block pointers, two stages for the mask, autotuned, lse in base 2 as M."""

import torch
import triton
import triton.language as tl


@triton.jit
def inner(acc, l_i, m_i, q, K_block, V_block, start_m, qk_scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
          STAGE: tl.constexpr, offs_m, offs_n, N_CTX: tl.constexpr):  # fmt: skip
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        lo = tl.multiple_of(lo, BLOCK_M)
    else:
        lo, hi = 0, N_CTX
    K_block = tl.advance(K_block, (0, lo))
    V_block = tl.advance(V_block, (lo, 0))
    for start_n in range(lo, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = tl.load(K_block)
        qk = tl.dot(q, k)
        if STAGE == 2:
            qk = qk * qk_scale + tl.where(offs_m[:, None] >= (start_n + offs_n[None, :]), 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V_block)
        acc = tl.dot(p.to(tl.float16), v, acc * alpha[:, None])
        m_i = m_ij
        V_block = tl.advance(V_block, (BLOCK_N, 0))
        K_block = tl.advance(K_block, (0, BLOCK_N))
    return acc, l_i, m_i


CONFIGS = [triton.Config({"BLOCK_M": 32, "BLOCK_N": wide}, num_warps=4) for wide in (16, 32)]


@triton.autotune(CONFIGS, key=["N_CTX", "HEAD_DIM"])
@triton.jit
def forward(Q, K, V, sm_scale, M, Out, stride_z, stride_h, stride_m, stride_k, H, N_CTX: tl.constexpr,
            HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
            STAGE: tl.constexpr):  # fmt: skip
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    start = (off_hz // H).to(tl.int64) * stride_z + (off_hz % H).to(tl.int64) * stride_h
    rows = (N_CTX, HEAD_DIM)
    Q_block = tl.make_block_ptr(
        Q + start, rows, (stride_m, stride_k), (start_m * BLOCK_M, 0), (BLOCK_M, HEAD_DIM), (1, 0)
    )
    V_block = tl.make_block_ptr(V + start, rows, (stride_m, stride_k), (0, 0), (BLOCK_N, HEAD_DIM), (1, 0))
    K_block = tl.make_block_ptr(
        K + start, (HEAD_DIM, N_CTX), (stride_k, stride_m), (0, 0), (HEAD_DIM, BLOCK_N), (0, 1)
    )
    O_block = tl.make_block_ptr(
        Out + start, rows, (stride_m, stride_k), (start_m * BLOCK_M, 0), (BLOCK_M, HEAD_DIM), (1, 0)
    )
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504
    q = tl.load(Q_block)
    if STAGE & 1:
        acc, l_i, m_i = inner(acc, l_i, m_i, q, K_block, V_block, start_m, qk_scale, BLOCK_M, BLOCK_N,
                              4 - STAGE, offs_m, offs_n, N_CTX)  # fmt: skip
    if STAGE & 2:
        acc, l_i, m_i = inner(acc, l_i, m_i, q, K_block, V_block, start_m, qk_scale, BLOCK_M, BLOCK_N, 2,
                              offs_m, offs_n, N_CTX)  # fmt: skip
    tl.store(M + off_hz * N_CTX + offs_m, m_i + tl.math.log2(l_i))
    tl.store(O_block, (acc / l_i[:, None]).to(Out.type.element_ty))


def attention(q, k, v, causal, sm_scale):
    out = torch.empty_like(q)
    batch, heads, length, head_dim = q.shape
    M = torch.empty((batch, heads, length), dtype=torch.float32)

    def grid(arguments):
        return triton.cdiv(length, arguments["BLOCK_M"]), batch * heads, 1

    rest = {"N_CTX": length, "HEAD_DIM": head_dim, "STAGE": 3 if causal else 1}
    forward[grid](q, k, v, sm_scale, M, out, *q.stride(), heads, **rest)
    return out
