"""A latent, read once

With a latent there is one row of numbers per token: it is K, and its first half is V. A program takes the
queries of all heads as the rows of a tile. The kernel loads each block of latents twice, once as K and once
as V. Complete the line that is marked, so that it is loaded once.
"""

import torch
import triton
import triton.language as tl

SCENARIO = {"seq": 1, "seq_kv": 40, "heads": 16, "kv_heads": 1, "head_dim": 32, "block_q": 16, "block_kv": 16}
FUNCTION = "latent"
COMPARED = ("Q", "K", "O")
HINTS = (
    "The tile that was loaded as K has all columns of the latent: the first half of them is V.",
    "P times all columns gives O in the first half, and numbers that are not stored in the other.",
    "v_tile = k_tile",
)


@triton.jit
def kernel(
    q, latents, out, heads, length, scale, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr
):
    """One program per sequence and block of heads."""
    batch = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns = tl.arange(0, D)
    inside = rows[:, None] < heads
    q_tile = tl.load(q + (batch * heads + rows)[:, None] * D + columns[None, :], mask=inside, other=0.0)
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741
    accumulator = tl.zeros([BLOCK_Q, D], tl.float32)
    for start in range(0, length, BLOCK_KV):
        keys = start + tl.arange(0, BLOCK_KV)
        places = (batch * length + keys)[:, None] * D + columns[None, :]
        k_tile = tl.load(latents + places, mask=keys[:, None] < length, other=0.0)
        v_tile = tl.load(latents + places, mask=keys[:, None] < length, other=0.0)  # your line
        scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
        scores = tl.where(keys[None, :] < length, scores, float("-inf"))
        new = tl.maximum(m, tl.max(scores, 1))
        alpha = tl.exp(m - new)
        p = tl.exp(scores - new[:, None])
        l = l * alpha + tl.sum(p, 1)  # noqa: E741
        accumulator = accumulator * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile)
        m = new
    tile = (accumulator / l[:, None]).to(out.dtype.element_ty)
    stored = inside & (columns[None, :] < D // 2)
    tl.store(out + (batch * heads + rows)[:, None] * (D // 2) + columns[None, :], tile, mask=stored)


def latent(q, latents, scale, block_q, block_kv):
    """O of [batch, heads, 1, d / 2]; q is [batch, heads, 1, d], latents are [batch, 1, length, d]."""
    batch, heads, _, head_dim = q.shape
    out = torch.empty((batch, heads, 1, head_dim // 2), dtype=q.dtype, device=q.device)
    grid = triton.cdiv(heads, block_q), batch
    kernel[grid](q, latents, out, heads, latents.shape[2], scale, head_dim, block_q, block_kv)
    return out
