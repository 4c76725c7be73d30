"""Split keys and merge

With one query per head there are few programs, so the keys are split: each program attends to its share
of them, and leaves O over these keys and the log-sum-exp of their scores. A second kernel merges.
Complete the line that is marked: by which weight does the O of each share count?
"""

import torch
import triton
import triton.language as tl

SCENARIO = {"seq": 32, "heads": 1, "head_dim": 16, "block_q": 16, "block_kv": 16}
COMPARED = ("K", "V", "O")  # Q is read once per share
HINTS = (
    "lse of a share is log(sum of exp(s)) over its keys: exp(lse) is the sum that its O was divided by.",
    "A share counts by its part of the sum over all keys: exp(lse) over the sum of exp(lse) of all shares.",
    "weight = tl.exp(lse - largest), as total is the sum of exp(lse - largest) over the shares",
)
SHARES = 2


@triton.jit
def share_kernel(q, k, v, parts, part_lse, length, rows, scale, D: tl.constexpr, BLOCK_Q: tl.constexpr,
                 BLOCK_KV: tl.constexpr, SHARES: tl.constexpr):  # fmt: skip
    """One program per query block, head and share of the keys."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    share = tl.program_id(2)
    queries = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns = tl.arange(0, D)
    q_places = (head * length + queries)[:, None] * D + columns[None, :]
    q_tile = tl.load(q + q_places, mask=queries[:, None] < length, other=0.0)
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741
    accumulator = tl.zeros([BLOCK_Q, D], tl.float32)
    blocks = tl.cdiv(tl.cdiv(length, BLOCK_KV), SHARES)
    for key_block in range(share * blocks, tl.minimum((share + 1) * blocks, tl.cdiv(length, BLOCK_KV))):
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
    part_rows = share * rows + head * length + queries
    inside = queries < length
    tl.store(
        parts + part_rows[:, None] * D + columns[None, :], accumulator / l[:, None], mask=inside[:, None]
    )
    tl.store(part_lse + part_rows, m + tl.log(l), mask=inside)


@triton.jit
def merge_kernel(parts, part_lse, out, rows, D: tl.constexpr, BLOCK: tl.constexpr, SHARES: tl.constexpr):
    """One program per block of rows: O = sum of weight O_share over the shares, by the sum of the weights."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, D)
    inside = row < rows
    every = tl.arange(0, SHARES)[:, None] * rows + row[None, :]
    all_lse = tl.load(part_lse + every, mask=inside[None, :], other=0.0)
    largest = tl.max(all_lse, 0)
    total = tl.sum(tl.exp(all_lse - largest[None, :]), 0)
    accumulator = tl.zeros([BLOCK, D], tl.float32)
    for share in range(0, SHARES):
        part_rows = share * rows + row
        lse = tl.load(part_lse + part_rows, mask=inside, other=0.0)
        weight = tl.exp(lse - lse) * total / SHARES  # your line
        tile = tl.load(parts + part_rows[:, None] * D + columns[None, :], mask=inside[:, None], other=0.0)
        accumulator += weight[:, None] * tile
    tile = (accumulator / total[:, None]).to(out.dtype.element_ty)
    tl.store(out + row[:, None] * D + columns[None, :], tile, mask=inside[:, None])


def attention(q, k, v, scale, block_q, block_kv):
    """O of [batch, heads, length, head_dim], like q."""
    out = torch.empty_like(q)
    batch, heads, length, head_dim = q.shape
    rows = batch * heads * length
    parts = torch.empty((SHARES, rows, head_dim), dtype=torch.float32, device=q.device)
    part_lse = torch.empty((SHARES, rows), dtype=torch.float32, device=q.device)
    grid = triton.cdiv(length, block_q), batch * heads, SHARES
    share_kernel[grid](q, k, v, parts, part_lse, length, rows, scale, head_dim, block_q, block_kv, SHARES)
    merge_kernel[(triton.cdiv(rows, block_q),)](parts, part_lse, out, rows, head_dim, block_q, SHARES)
    return out
