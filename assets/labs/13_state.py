"""Carry a state

Linear attention keeps a state instead of a cache: S = g S + k v^T with each token, o = S^T q. A program takes
a head in chunks: within a chunk it multiplies as attention does, and the state stands for all chunks before.
At its end the chunk must go into the state. Complete the line that is marked; `since` is the logarithm of all
gates from the chunk's first token up to each, `whole` of all in the chunk.
"""

import torch
import triton
import triton.language as tl

SCENARIO = {"seq": 48, "heads": 2, "head_dim": 16, "block_q": 16, "block_kv": 16}
FUNCTION = "linear"
HINTS = (
    "What was in the state has passed all gates of the chunk: it is multiplied by exp(whole).",
    "A key of the chunk has passed the gates after it: exp(whole - since). Then K^T V is added.",
    "state = state * tl.exp(whole) + tl.dot(tl.trans(k_tile * tl.exp(whole - since)[:, None]), v_tile)",
)


@triton.jit
def kernel(q, k, v, gates, out, length, scale, D: tl.constexpr, CHUNK: tl.constexpr):
    """One program per head."""
    head = tl.program_id(0)
    columns = tl.arange(0, D)
    at = tl.arange(0, CHUNK)
    state = tl.zeros([D, D], tl.float32)
    for start in range(0, length, CHUNK):
        tokens = start + at
        places = (head * length + tokens)[:, None] * D + columns[None, :]
        inside = tokens[:, None] < length
        q_tile = tl.load(q + places, mask=inside, other=0.0).to(tl.float32) * scale
        k_tile = tl.load(k + places, mask=inside, other=0.0).to(tl.float32)
        v_tile = tl.load(v + places, mask=inside, other=0.0).to(tl.float32)
        log_gates = tl.load(gates + head * length + tokens, mask=tokens < length, other=0.0)
        since = tl.sum(tl.where(at[None, :] <= at[:, None], log_gates[None, :], 0.0), 1)
        whole = tl.sum(log_gates, 0)
        decay = tl.where(at[None, :] <= at[:, None], tl.exp(since[:, None] - since[None, :]), 0.0)
        tile = tl.dot(tl.dot(q_tile, tl.trans(k_tile)) * decay, v_tile)
        tile += tl.dot(q_tile * tl.exp(since)[:, None], state)
        state = state * tl.exp(whole)  # your line
        tl.store(out + places, tile.to(out.dtype.element_ty), mask=inside)


def linear(q, k, v, gates, scale, chunk):
    """O like q, [batch, heads, length, head_dim]; gates are logarithms, [batch, heads, length], float32."""
    out = torch.empty_like(q)
    batch, heads, length, head_dim = q.shape
    kernel[(batch * heads,)](q, k, v, gates, out, length, scale, head_dim, chunk)
    return out
