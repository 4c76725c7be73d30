"""Visit chosen blocks

A table names two blocks of keys for each block of queries of a head: only they are to be visited. The kernel
visits the first two instead. Complete the line that is marked; tl.load reads a number of the table.
"""

import torch
import triton
import triton.language as tl

SCENARIO = {"seq": 64, "heads": 2, "head_dim": 16, "block_q": 16, "block_kv": 16}
FUNCTION = "selected"
HINTS = (
    "The table is [heads, query blocks, CHOSEN]: a row of it stands at (head * blocks + block) * CHOSEN.",
    "Entry number `entry` of that row is the block of keys to visit.",
    "key_block = tl.load(table + (head * tl.num_programs(0) + block) * CHOSEN + entry)",
)


@triton.jit
def kernel(q, k, v, table, out, length, scale, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr,
           CHOSEN: tl.constexpr):  # fmt: skip
    """One program per query block and head."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    queries = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns = tl.arange(0, D)
    q_places = (head * length + queries)[:, None] * D + columns[None, :]
    q_tile = tl.load(q + q_places, mask=queries[:, None] < length, other=0.0)
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741
    accumulator = tl.zeros([BLOCK_Q, D], tl.float32)
    for entry in range(0, CHOSEN):
        key_block = entry  # your line
        keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
        places = (head * length + keys)[:, None] * D + columns[None, :]
        k_tile = tl.load(k + places, mask=keys[:, None] < length, other=0.0)
        v_tile = tl.load(v + places, mask=keys[:, None] < length, other=0.0)
        scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
        scores = tl.where(keys[None, :] < length, scores, float("-inf"))
        new = tl.maximum(m, tl.max(scores, 1))
        alpha = tl.exp(m - new)
        p = tl.exp(scores - new[:, None])
        l = l * alpha + tl.sum(p, 1)  # noqa: E741
        accumulator = accumulator * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile)
        m = new
    tile = (accumulator / l[:, None]).to(out.dtype.element_ty)
    tl.store(out + q_places, tile, mask=queries[:, None] < length)


def selected(q, k, v, blocks, scale, block_q, block_kv):
    """O like q, [1, heads, length, head_dim]; blocks are [1, heads, query blocks, chosen], int32."""
    out = torch.empty_like(q)
    _, heads, length, head_dim = q.shape
    grid = triton.cdiv(length, block_q), heads
    chosen = blocks.shape[3]
    kernel[grid](q, k, v, blocks, out, length, scale, head_dim, block_q, block_kv, chosen)
    return out
