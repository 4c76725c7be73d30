"""Skipping hidden tiles

The result is right, but half of the tiles are loaded and multiplied for nothing: the mask hides all of
them. Complete the line that is marked, so that the loop ends with the last block that a query of this
program sees.
"""

import torch
import triton
import triton.language as tl

SCENARIO = {"seq": 48, "heads": 1, "head_dim": 16, "block_q": 16, "block_kv": 16, "causal": True}
HINTS = (
    "The last query of the block is (block + 1) * BLOCK_Q - 1: it sees the keys up to its own position.",
    "tl.cdiv(x, BLOCK_KV) blocks hold x keys; there are no more than length of them.",
    "stop = tl.cdiv(tl.minimum(length, (block + 1) * BLOCK_Q), BLOCK_KV)",
)


@triton.jit
def kernel(q, k, v, out, length, group, scale, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr,
           CAUSAL: tl.constexpr):  # fmt: skip
    """One program per query block and head."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    kv_head = head // group
    queries = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns = tl.arange(0, D)
    q_places = (head * length + queries)[:, None] * D + columns[None, :]
    q_tile = tl.load(q + q_places, mask=queries[:, None] < length, other=0.0)
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)  # running maximum
    l = tl.zeros([BLOCK_Q], tl.float32)  # running sum  # noqa: E741
    accumulator = tl.zeros([BLOCK_Q, D], tl.float32)
    stop = tl.cdiv(length, BLOCK_KV)
    if CAUSAL:
        stop = tl.cdiv(length, BLOCK_KV)  # your line
    for key_block in range(0, stop):
        keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
        places = (kv_head * length + keys)[:, None] * D + columns[None, :]
        k_tile = tl.load(k + places, mask=keys[:, None] < length, other=0.0)
        v_tile = tl.load(v + places, mask=keys[:, None] < length, other=0.0)
        scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
        seen = keys[None, :] < length
        if CAUSAL:
            seen = seen & (keys[None, :] <= queries[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        new = tl.maximum(m, tl.max(scores, 1))
        alpha = tl.exp(m - new)
        p = tl.exp(scores - new[:, None])
        l = l * alpha + tl.sum(p, 1)  # noqa: E741
        accumulator = accumulator * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile)
        m = new
    tile = (accumulator / l[:, None]).to(out.dtype.element_ty)
    tl.store(out + q_places, tile, mask=queries[:, None] < length)


def attention(q, k, v, scale, block_q, block_kv, causal):
    """O of [batch, heads, length, head_dim], like q."""
    out = torch.empty_like(q)
    batch, heads, length, head_dim = q.shape
    group = heads // k.shape[1]
    grid = triton.cdiv(length, block_q), batch * heads
    kernel[grid](q, k, v, out, length, group, scale, head_dim, block_q, block_kv, causal)
    return out
