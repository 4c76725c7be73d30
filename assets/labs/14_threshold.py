"""Rescale only above a threshold

m need not be the maximum, only near it: FlashAttention-4 leaves m, l and O as they are until a score passes
m by more than 8 in log2, so weights grow to 2^8 at most. Complete the line that is marked. What is returned
is O before it is divided by l, in float32: it shows which m was kept. (A real kernel asks its warps first and
does not multiply where no row of theirs rises.)
"""

import torch
import triton
import triton.language as tl

SCENARIO = {"seq": 72, "heads": 2, "head_dim": 16, "block_q": 16, "block_kv": 16, "stretch": 6.0}
FUNCTION = "threshold"
HINTS = (
    "Scores are natural here: (largest - m) * LOG2_E is by how many powers of two a weight would grow.",
    "tl.where takes one of two, row by row; where m stays, exp(m - new) is 1 by itself.",
    "new = tl.where((largest - m) * LOG2_E > THRESHOLD, largest, m)",
)
THRESHOLD = tl.constexpr(8.0)
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def kernel(q, k, v, sums, length, group, scale, D: tl.constexpr, BLOCK_Q: tl.constexpr,
           BLOCK_KV: tl.constexpr):  # fmt: skip
    """One program per query block and head."""
    head = tl.program_id(1)
    kv_head = head // group
    queries = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns = tl.arange(0, D)
    q_places = (head * length + queries)[:, None] * D + columns[None, :]
    q_tile = tl.load(q + q_places, mask=queries[:, None] < length, other=0.0)
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    accumulator = tl.zeros([BLOCK_Q, D], tl.float32)
    for start in range(0, length, BLOCK_KV):
        keys = start + tl.arange(0, BLOCK_KV)
        places = (kv_head * length + keys)[:, None] * D + columns[None, :]
        k_tile = tl.load(k + places, mask=keys[:, None] < length, other=0.0)
        v_tile = tl.load(v + places, mask=keys[:, None] < length, other=0.0)
        scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
        scores = tl.where(keys[None, :] < length, scores, float("-inf"))
        largest = tl.maximum(m, tl.max(scores, 1))
        new = largest  # your line
        alpha = tl.exp(m - new)
        p = tl.exp(scores - new[:, None])
        accumulator = accumulator * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile)
        m = new
    tl.store(sums + q_places, accumulator, mask=queries[:, None] < length)


def threshold(q, k, v, scale, block_q, block_kv):
    """O of [batch, heads, length, head_dim] before its division by l, float32."""
    sums = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    batch, heads, length, head_dim = q.shape
    grid = triton.cdiv(length, block_q), batch * heads
    kernel[grid](q, k, v, sums, length, heads // k.shape[1], scale, head_dim, block_q, block_kv)
    return sums
