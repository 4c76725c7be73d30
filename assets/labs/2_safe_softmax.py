"""A softmax that does not overflow

Here one block holds all keys, and the scores are large: exp of them is infinite. Softmax stays what it
is if the same number is subtracted from all scores of a row. Complete the line that is marked.
"""

import torch
import triton
import triton.language as tl

SCENARIO = {"seq": 32, "heads": 1, "head_dim": 16, "block_q": 16, "block_kv": 32, "stretch": 24.0}
HINTS = (
    "Which number makes the largest exponential of each row exactly 1?",
    "The maximum of each row is tl.max(scores, 1), [BLOCK_Q]; as a column it is tl.max(scores, 1)[:, None].",
    "p = tl.exp(scores - tl.max(scores, 1)[:, None])",
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
    l = tl.zeros([BLOCK_Q], tl.float32)  # running sum  # noqa: E741
    accumulator = tl.zeros([BLOCK_Q, D], tl.float32)
    stop = tl.cdiv(length, BLOCK_KV)
    if CAUSAL:
        stop = tl.cdiv(tl.minimum(length, (block + 1) * BLOCK_Q), BLOCK_KV)
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
        p = tl.exp(scores)  # your lines
        l = tl.sum(p, 1)  # noqa: E741
        accumulator = tl.dot(p.to(v_tile.dtype), v_tile)
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
