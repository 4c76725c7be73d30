"""Backward's delta

The backward pass needs one number per query row, delta = rowsum(dO o O): the gradient of the scores is
P o (dP - delta). Complete the line that is marked. The tiles are in 16 bits; multiply and sum in float32.
"""

import torch
import triton
import triton.language as tl

SCENARIO = {"seq": 40, "heads": 2, "head_dim": 16, "block_q": 16, "block_kv": 16}
FUNCTION = "delta"
COMPARED = ("O", "dO", "delta")
HINTS = (
    "o means element by element: the two tiles are [BLOCK_Q, D], delta is [BLOCK_Q].",
    "tile.to(tl.float32) widens a tile; tl.sum(tile, 1) sums its rows.",
    "rows = tl.sum(o_tile.to(tl.float32) * d_o_tile.to(tl.float32), 1)",
)


@triton.jit
def kernel(out, d_out, terms, length, D: tl.constexpr, BLOCK_Q: tl.constexpr):
    """One program per query block and head."""
    head = tl.program_id(1)
    queries = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    inside = queries < length
    places = (head * length + queries)[:, None] * D + tl.arange(0, D)[None, :]
    o_tile = tl.load(out + places, mask=inside[:, None], other=0.0)
    d_o_tile = tl.load(d_out + places, mask=inside[:, None], other=0.0)
    rows = tl.sum(o_tile, 1) * tl.sum(d_o_tile, 1)  # your line
    tl.store(terms + head * length + queries, rows.to(tl.float32), mask=inside)


def delta(out, d_out, block_q):
    """delta of [batch, heads, length], float32; out and d_out are [batch, heads, length, head_dim]."""
    batch, heads, length, head_dim = out.shape
    terms = torch.empty((batch, heads, length), dtype=torch.float32, device=out.device)
    kernel[(triton.cdiv(length, block_q), batch * heads)](out, d_out, terms, length, head_dim, block_q)
    return terms
