"""Attention over chosen blocks of keys: each row of queries visits those that a table names and no other.

As the selected branch of Native Sparse Attention (Yuan et al., arXiv 2502.11089, section 3.4): the query
heads that share a key head share its choice, so their queries are the rows of one tile, and a chosen block is
read once for all of them. With more than one query to a choice it is block-sparse attention.
"""

import torch
import triton
import triton.language as tl

from kernels.call.arguments import check_options, check_tensors
from kernels.call.call import Call, ceil_div, tile_size
from kernels.call.value_checks import (
    check_index,
    check_untransformed,
    check_without_gradient,
    flag,
    must,
    resolved,
    whole,
)
from kernels.launch.launch import interpreted, launch, output_like, stages
from kernels.tile.tile import (
    LOG2_E,
    head_start,
    load_tile,
    log_sum_exp,
    matmul,
    narrowed,
    normalised,
    online_softmax_update,
)
from kernels.tilings.flash2 import MAX_HEAD_DIM, warps

NAME = "attention_selected"
MOST_ROWS = 128  # of a tile


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "chosen"])
def selected_kernel(
    q, k, v, blocks, out, lse, strides, scale_log2, heads, kv_heads, seq_q, seq_kv, chosen,
    QUERIES: tl.constexpr, CAUSAL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """One program a tile of rows: row r is query r // group of its QUERIES, of head r % group."""
    q_strides, k_strides, v_strides, block_strides, out_strides = strides
    group = heads // kv_heads
    tiles = tl.cdiv(QUERIES * group, TILE.BLOCK_Q)
    choices = tl.cdiv(seq_q, QUERIES)
    rows = tl.program_id(0) % tiles * TILE.BLOCK_Q + tl.arange(0, TILE.BLOCK_Q)
    choice = tl.program_id(0) // tiles % choices
    kv_head = tl.program_id(0) // tiles // choices % kv_heads
    batch = tl.program_id(0) // tiles // choices // kv_heads
    queries, members = choice * QUERIES + rows // group, kv_head * group + rows % group
    there = (rows < QUERIES * group) & (queries < seq_q)
    position = queries + (seq_kv - seq_q)
    end = seq_kv
    if CAUSAL:  # of the keys that some row sees
        end = tl.minimum(seq_kv, tl.max(tl.where(there, position, -1), 0) + 1)
    columns, v_columns = tl.arange(0, TILE.BLOCK_D), tl.arange(0, TILE.BLOCK_V)
    of_rows = members.to(tl.int64) * q_strides[1] + queries.to(tl.int64) * q_strides[2]
    q_places = batch.to(tl.int64) * q_strides[0] + of_rows[:, None] + (columns * q_strides[3])[None, :]
    q_tile = tl.load(q + q_places, there[:, None] & (columns < TILE.HEAD_DIM)[None, :], other=0.0)
    k_head, v_head = (head_start(k, k_strides, batch, kv_head), head_start(v, v_strides, batch, kv_head))
    table = head_start(blocks, block_strides, batch, kv_head) + choice.to(tl.int64) * block_strides[2]
    running_max = tl.full([TILE.BLOCK_Q], float("-inf"), tl.float32)
    running_sum = tl.full([TILE.BLOCK_Q], 0.0, tl.float32)
    accumulator = tl.full([TILE.BLOCK_Q, TILE.BLOCK_V], 0.0, tl.float32)
    for entry in range(0, chosen):
        block = tl.load(table + entry * block_strides[3])
        first = tl.where(block < 0, seq_kv, block * TILE.BLOCK_KV).to(tl.int32)  # none: nothing is loaded
        keys = first + tl.arange(0, TILE.BLOCK_KV)
        k_tile = load_tile(k_head, k_strides, keys, columns, end, TILE.HEAD_DIM, True)
        v_tile = load_tile(v_head, v_strides, keys, v_columns, end, TILE.V_DIM, True)
        seen = (keys < end)[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= position[:, None])
        products = tl.where(seen, matmul(q_tile, tl.trans(k_tile)), float("-inf"))
        running_max, running_sum, accumulator, _ = online_softmax_update(
            products, v_tile, running_max, running_sum, accumulator, scale_log2
        )
    of_rows = members.to(tl.int64) * out_strides[1] + queries.to(tl.int64) * out_strides[2]
    places = batch.to(tl.int64) * out_strides[0] + of_rows[:, None] + (v_columns * out_strides[3])[None, :]
    result = narrowed(normalised(accumulator, running_sum), out.dtype.element_ty)
    tl.store(out + places, result, there[:, None] & (v_columns < TILE.V_DIM)[None, :])
    lse_rows = (batch.to(tl.int64) * heads + members) * seq_q + queries
    tl.store(lse + lse_rows, log_sum_exp(running_max, running_sum), there)


def attention_selected(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    blocks: torch.Tensor,
    *,
    block_q: int = 1,
    block_kv: int = 64,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """`attention` over chosen blocks of keys alone; forward only.

    Every block_q queries of the heads that share a key head visit the key blocks that a row of `blocks`,
    [batch, kv_heads, ceil(seq_q / block_q), chosen], names: key block j holds the keys from j * block_kv on,
    and a negative number names none. It is int32 or int64, and a row must not name a block twice. Tensors,
    causal, scale and what is returned are as `attention` says; a query that sees no chosen key gives O = 0
    and lse = -inf.

    Raises ValueError or TypeError, naming the argument, for what cannot be served, and for gradients.

    Example:
        attention_selected(q, k, v, importance.topk(16, -1).indices, causal=True)
    """
    check_untransformed(q, k, v)
    q, k, v = resolved(q, k, v)
    check_tensors(q, k, v, interpreted())
    check_options(None, scale, NAME, None, block_kv, None, {NAME: 1})
    if q.shape[3] > MAX_HEAD_DIM or v.shape[3] > MAX_HEAD_DIM:
        raise ValueError(
            f"q and v have head_dim {q.shape[3]} and {v.shape[3]}, they must be at most {MAX_HEAD_DIM}"
        )
    must(whole(block_q, 1), "block_q", block_q, "a whole number of queries, at least 1")
    check_index("blocks", blocks, "[batch, kv_heads, ceil(seq_q / block_q), chosen]", q.device)
    (batch, heads, seq_q, head_dim), (kv_heads, seq_kv) = q.shape, k.shape[1:3]
    choices = ceil_div(seq_q, block_q)
    if blocks.shape[:3] != (batch, kv_heads, choices):
        wanted = f"[{batch}, {kv_heads}, {choices}, chosen]"
        raise ValueError(f"blocks has shape {tuple(blocks.shape)}, it must be {wanted}")
    key_blocks = ceil_div(seq_kv, block_kv)
    if blocks.device.type == "cpu" and blocks.numel() and (last := blocks.max()) >= key_blocks:
        raise ValueError(f"blocks names block {last}, it must be below {key_blocks}")
    check_without_gradient(f"{NAME} has", q=q, k=k, v=v)
    rows = min(MOST_ROWS, tile_size(block_q * heads // kv_heads))
    scale = head_dim**-0.5 if scale is None else float(scale)
    call = Call(
        batch, heads, kv_heads, seq_q, seq_kv, head_dim, flag("causal", causal), None, scale, NAME, rows,
        block_kv, None, v_dim=v.shape[3],
    )  # fmt: skip
    out, lse = output_like(q, v), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    streamed, resident = block_kv * (call.padded_head_dim + call.padded_out_dim), rows * call.padded_head_dim
    launch(
        selected_kernel,
        batch * kv_heads * choices * ceil_div(block_q * (heads // kv_heads), rows),
        call,
        (q, k, v, blocks, out, lse),
        num_warps=warps(rows),
        num_stages=stages(q, streamed, resident),
        strides=(q.stride(), k.stride(), v.stride(), blocks.stride(), out.stride()),
        scale_log2=scale * LOG2_E.value,
        heads=heads,
        kv_heads=kv_heads,
        seq_q=seq_q,
        seq_kv=seq_kv,
        chosen=blocks.shape[3],
        QUERIES=int(block_q),
        CAUSAL=call.causal,
        TILE=call.unmasked_tile,
    )
    return (out, lse) if return_lse else out
