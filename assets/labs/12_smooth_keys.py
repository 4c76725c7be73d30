"""Smooth K for 8 bits

Q and K are multiplied as whole numbers of 8 bits, each block in a scale of its own. One column of K is far
from 0 in every token: it takes the scale for itself, and the other columns are rounded away. A first loop has
summed the mean of K over its tokens. Complete the line that is marked, so that this column does no harm.
"""

import torch
import triton
import triton.language as tl

SCENARIO = {"seq": 32, "heads": 1, "head_dim": 16, "block_q": 16, "block_kv": 16}
FUNCTION = "smoothed"
HINTS = (
    "A softmax does not change where all scores of a row are less by the same number.",
    "A number that is taken off every key, in each column, takes q times that off all scores of a query.",
    "k_tile = k_tile - mean[None, :]",
)


@triton.jit
def eight_bits(tile):
    """Whole numbers from -127 to 127, and what they are to be multiplied by."""
    scale = tl.max(tl.max(tl.abs(tile), 1), 0) / 127.0
    return tl.floor(tile / scale + 0.5), scale


@triton.jit
def kernel(q, k, v, out, length, scale, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr):
    """One program per query block and head."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    queries = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns = tl.arange(0, D)
    q_places = (head * length + queries)[:, None] * D + columns[None, :]
    q_tile = tl.load(q + q_places, mask=queries[:, None] < length, other=0.0).to(tl.float32)
    q_whole, q_scale = eight_bits(q_tile)
    mean = tl.zeros([D], tl.float32)
    for start in range(0, length, BLOCK_KV):
        keys = start + tl.arange(0, BLOCK_KV)
        places = (head * length + keys)[:, None] * D + columns[None, :]
        mean += tl.sum(tl.load(k + places, mask=keys[:, None] < length, other=0.0).to(tl.float32), 0) / length
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741
    accumulator = tl.zeros([BLOCK_Q, D], tl.float32)
    for start in range(0, length, BLOCK_KV):
        keys = start + tl.arange(0, BLOCK_KV)
        places = (head * length + keys)[:, None] * D + columns[None, :]
        k_tile = tl.load(k + places, mask=keys[:, None] < length, other=0.0).to(tl.float32)
        k_tile = k_tile + 0.0 * mean[None, :]  # your line
        k_whole, k_scale = eight_bits(k_tile)
        v_tile = tl.load(v + places, mask=keys[:, None] < length, other=0.0)
        scores = tl.dot(q_whole, tl.trans(k_whole)) * (q_scale * k_scale * scale)
        scores = tl.where(keys[None, :] < length, scores, float("-inf"))
        new = tl.maximum(m, tl.max(scores, 1))
        alpha = tl.exp(m - new)
        p = tl.exp(scores - new[:, None])
        l = l * alpha + tl.sum(p, 1)  # noqa: E741
        accumulator = accumulator * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile)
        m = new
    tile = (accumulator / l[:, None]).to(out.dtype.element_ty)
    tl.store(out + q_places, tile, mask=queries[:, None] < length)


def smoothed(q, k, v, scale, block_q, block_kv):
    """O like q, [batch, heads, length, head_dim]."""
    out = torch.empty_like(q)
    batch, heads, length, head_dim = q.shape
    grid = triton.cdiv(length, block_q), batch * heads
    kernel[grid](q, k, v, out, length, scale, head_dim, block_q, block_kv)
    return out
