"""The backward pass of FlashAttention-2 (Dao, arXiv 2307.08691, section 3.1.2): scores recomputed from q, k
and lse.

With P = exp(S - lse) and delta = rowsum(dO o O):  dV = P^T dO,  dP = dO V^T,  dS = P o (dP - delta), dK =
scale dS^T Q,  dQ = scale dS K. Key blocks outside for dK and dV, query blocks outside for dQ, so that each
is summed in registers, in one order: no atomics, and the same bits every time.
"""

import torch
import triton
import triton.language as tl

from kernels.again import Again
from kernels.arguments import Call, ceil_div
from kernels.backward_tiling import Pass, tilings
from kernels.launch import POINTER_ALIGNMENT, addresses, launch, on_device, options_given, stages
from kernels.row_terms import store_row_terms
from kernels.tile import (
    LOG2_E,
    head_start,
    inlined,
    key_blocks_of,
    load_tile,
    matmul,
    narrowed,
    query_blocks_of,
    store_tile,
    visible,
)


@inlined
def add_to_keys(
    k_tile, v_tile, d_k, d_v, q_head, d_out_head, lse_head, delta_head, q_strides, d_out_strides, start, stop,
    keys, columns, seq_q, seq_kv, window, scale_log2,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_Q: tl.constexpr,
    MASKED: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Add what query blocks start to stop - 1 of a head give to dK / scale and dV of a key block."""
    for query_block in range(start, stop):
        queries = query_block * BLOCK_Q + tl.arange(0, BLOCK_Q)
        q_tile = load_tile(q_head, q_strides, queries, columns, seq_q, HEAD_DIM, RAGGED)
        d_out_tile = load_tile(d_out_head, d_out_strides, queries, columns, seq_q, HEAD_DIM, RAGGED)
        lse = tl.load(lse_head + queries)
        delta = tl.load(delta_head + queries)
        products = matmul(k_tile, tl.trans(q_tile))  # transposed throughout: [keys, queries]
        if MASKED:
            seen = visible(queries[None, :], keys[:, None], seq_kv - seq_q, seq_kv, window, CAUSAL, WINDOWED)
            products = tl.where(seen, products, float("-inf"))
        d_weights = matmul(v_tile, tl.trans(d_out_tile))  # before the exponentials, which hide under it
        weights = tl.exp2(products * scale_log2 - lse[None, :])
        d_v += matmul(narrowed(weights, d_out_tile.dtype), d_out_tile)
        d_scores = weights * (d_weights - delta[None, :])
        d_k += matmul(narrowed(d_scores, q_tile.dtype), q_tile)
    return d_k, d_v


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window"])
def key_gradient_kernel(
    q, k, v, d_out, lse, delta, d_k, d_v,
    q_strides, k_strides, v_strides, d_out_strides, d_k_strides, d_v_strides,
    heads, kv_heads, seq_q, seq_kv, padded_seq_q, window, scale, scale_log2,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr, EVEN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One program a key block of a key head, over all query heads that share it: dK and dV."""
    key_blocks = tl.cdiv(seq_kv, BLOCK_KV)
    key_block = tl.program_id(0) % key_blocks
    batch = tl.program_id(0) // key_blocks // kv_heads
    kv_head = tl.program_id(0) // key_blocks % kv_heads
    keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
    columns = tl.arange(0, BLOCK_D)
    k_head = head_start(k, k_strides, batch, kv_head)
    v_head = head_start(v, v_strides, batch, kv_head)
    k_tile = load_tile(k_head, k_strides, keys, columns, seq_kv, HEAD_DIM, True)
    v_tile = load_tile(v_head, v_strides, keys, columns, seq_kv, HEAD_DIM, True)
    k_sum = tl.zeros([BLOCK_KV, BLOCK_D], tl.float32)
    v_sum = tl.zeros([BLOCK_KV, BLOCK_D], tl.float32)
    start, full_start, full_stop, stop = query_blocks_of(
        key_block, seq_q, seq_kv, window, CAUSAL, WINDOWED, BLOCK_Q, BLOCK_KV
    )
    for member in range(0, GROUP):  # known to the compiler: no loop around the loops where it is 1
        head = kv_head * GROUP + member
        rows = (batch * heads + head).to(tl.int64) * padded_seq_q
        q_head = head_start(q, q_strides, batch, head)
        d_out_head = head_start(d_out, d_out_strides, batch, head)
        if CAUSAL:  # the diagonal
            k_sum, v_sum = add_to_keys(
                k_tile, v_tile, k_sum, v_sum, q_head, d_out_head, lse + rows, delta + rows,
                q_strides, d_out_strides, start, full_start,
                keys, columns, seq_q, seq_kv, window, scale_log2,
                CAUSAL, WINDOWED, HEAD_DIM, BLOCK_Q, True, not EVEN,
            )  # fmt: skip
        k_sum, v_sum = add_to_keys(
            k_tile, v_tile, k_sum, v_sum, q_head, d_out_head, lse + rows, delta + rows,
            q_strides, d_out_strides, full_start, full_stop,
            keys, columns, seq_q, seq_kv, window, scale_log2,
            CAUSAL, WINDOWED, HEAD_DIM, BLOCK_Q, False, False,
        )  # fmt: skip
        if WINDOWED or not EVEN:  # the window's far edge and the ragged end
            k_sum, v_sum = add_to_keys(
                k_tile, v_tile, k_sum, v_sum, q_head, d_out_head, lse + rows, delta + rows,
                q_strides, d_out_strides, full_stop, stop,
                keys, columns, seq_q, seq_kv, window, scale_log2,
                CAUSAL, WINDOWED, HEAD_DIM, BLOCK_Q, True, not EVEN,
            )  # fmt: skip
    d_k_head = head_start(d_k, d_k_strides, batch, kv_head)
    d_v_head = head_start(d_v, d_v_strides, batch, kv_head)
    store_tile(d_k_head, d_k_strides, keys, columns, seq_kv, HEAD_DIM, k_sum * scale)
    store_tile(d_v_head, d_v_strides, keys, columns, seq_kv, HEAD_DIM, v_sum)


@inlined
def add_to_queries(
    q_tile, d_out_tile, lse, delta, d_q, k_head, v_head, k_strides, v_strides, start, stop,
    queries, columns, seq_q, seq_kv, window, scale_log2,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_KV: tl.constexpr,
    MASKED: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Add what key blocks start to stop - 1 give to dQ / scale of a query block."""
    for key_block in range(start, stop):
        keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
        k_tile = load_tile(k_head, k_strides, keys, columns, seq_kv, HEAD_DIM, RAGGED)
        v_tile = load_tile(v_head, v_strides, keys, columns, seq_kv, HEAD_DIM, RAGGED)
        products = matmul(q_tile, tl.trans(k_tile))
        if MASKED:
            seen = visible(queries[:, None], keys[None, :], seq_kv - seq_q, seq_kv, window, CAUSAL, WINDOWED)
            products = tl.where(seen, products, float("-inf"))
        d_weights = matmul(d_out_tile, tl.trans(v_tile))  # before the exponentials, which hide under it
        weights = tl.exp2(products * scale_log2 - lse[:, None])
        d_scores = weights * (d_weights - delta[:, None])
        d_q += matmul(narrowed(d_scores, k_tile.dtype), k_tile)
    return d_q


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window"])
def query_gradient_kernel(
    q, k, v, d_out, lse, delta, d_q, q_strides, k_strides, v_strides, d_out_strides, d_q_strides,
    heads, kv_heads, seq_q, seq_kv, padded_seq_q, window, scale, scale_log2,
    CAUSAL: tl.constexpr, WINDOWED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_KV: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """One program a query block of a head: dQ."""
    query_blocks = tl.cdiv(seq_q, BLOCK_Q)
    batch_head = tl.program_id(0) // query_blocks
    query_block = tl.program_id(0) % query_blocks
    if CAUSAL:  # the last query blocks see most keys: start them first
        query_block = query_blocks - 1 - query_block
    batch = batch_head // heads
    head = batch_head % heads
    kv_head = head // (heads // kv_heads)
    rows = batch_head.to(tl.int64) * padded_seq_q
    queries = query_block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    columns = tl.arange(0, BLOCK_D)
    q_head = head_start(q, q_strides, batch, head)
    d_out_head = head_start(d_out, d_out_strides, batch, head)
    k_head = head_start(k, k_strides, batch, kv_head)
    v_head = head_start(v, v_strides, batch, kv_head)
    q_tile = load_tile(q_head, q_strides, queries, columns, seq_q, HEAD_DIM, True)
    d_out_tile = load_tile(d_out_head, d_out_strides, queries, columns, seq_q, HEAD_DIM, True)
    lse_rows = tl.load(lse + rows + queries)
    delta_rows = tl.load(delta + rows + queries)
    q_sum = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    first = query_block * BLOCK_Q
    last = tl.minimum(first + BLOCK_Q, seq_q) - 1
    start, full_start, full_stop, stop = key_blocks_of(
        first, last, seq_q, seq_kv, window, CAUSAL, WINDOWED, BLOCK_KV
    )
    if WINDOWED:  # the window's far edge
        q_sum = add_to_queries(
            q_tile, d_out_tile, lse_rows, delta_rows, q_sum, k_head, v_head, k_strides, v_strides,
            start, full_start, queries, columns, seq_q, seq_kv, window, scale_log2,
            CAUSAL, WINDOWED, HEAD_DIM, BLOCK_KV, True, not EVEN,
        )  # fmt: skip
    q_sum = add_to_queries(
        q_tile, d_out_tile, lse_rows, delta_rows, q_sum, k_head, v_head, k_strides, v_strides,
        full_start, full_stop, queries, columns, seq_q, seq_kv, window, scale_log2,
        CAUSAL, WINDOWED, HEAD_DIM, BLOCK_KV, False, False,
    )  # fmt: skip
    if CAUSAL or not EVEN:  # the diagonal and the ragged end
        q_sum = add_to_queries(
            q_tile, d_out_tile, lse_rows, delta_rows, q_sum, k_head, v_head, k_strides, v_strides,
            full_stop, stop, queries, columns, seq_q, seq_kv, window, scale_log2,
            CAUSAL, WINDOWED, HEAD_DIM, BLOCK_KV, True, not EVEN,
        )  # fmt: skip
    d_q_head = head_start(d_q, d_q_strides, batch, head)
    store_tile(d_q_head, d_q_strides, queries, columns, seq_q, HEAD_DIM, q_sum * scale)


def backward(q, k, v, out, lse, d_out, d_lse, call: Call, block_q, block_kv) -> tuple[torch.Tensor, ...]:
    """dQ, dK and dV like q, k and v, from the forward pass's results and their gradients (d_lse or None).

    call is theirs, block_q and block_kv None where the blocks are not given.
    """
    d_q, d_k, d_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    pointers = (out.data_ptr() | lse.data_ptr() | d_out.data_ptr()) % POINTER_ALIGNMENT
    alike = "backward", out.stride(), d_out.stride(), pointers
    if not options_given() and (launched := call.memory.get(alike)):
        padded_seq_q, fill, differentiate_keys, differentiate_queries = launched
        delta, lse_log2 = _terms(call, padded_seq_q, q.device)
        with on_device(q.device):
            fill(*addresses((out, d_out, lse, delta, lse_log2)))
            _subtract(d_lse, delta, call)
            inputs = addresses((q, k, v, d_out, lse_log2, delta))
            differentiate_keys(*inputs, *addresses((d_k, d_v)))
            differentiate_queries(*inputs, d_q.data_ptr())
        return d_q, d_k, d_v

    keys, queries = tilings(call, q.dtype, block_q, block_kv)
    padding = max(keys.call.block_q, queries.call.block_q)
    delta, lse_log2 = _terms(call, ceil_div(call.seq_q, padding) * padding, q.device)
    fill = store_row_terms(out, d_out, lse, delta, lse_log2, None, queries.call)
    _subtract(d_lse, delta, call)
    shared = {
        "q_strides": q.stride(),
        "k_strides": k.stride(),
        "v_strides": v.stride(),
        "d_out_strides": d_out.stride(),
        "padded_seq_q": delta.shape[2],
        "scale": call.scale,
        "scale_log2": call.scale * LOG2_E.value,
    }
    differentiate_keys = _key_gradient((q, k, v, d_out, lse_log2, delta, d_k, d_v), keys, shared)
    differentiate_queries = _query_gradient((q, k, v, d_out, lse_log2, delta, d_q), queries, shared)
    if fill is not None and not options_given():
        call.memory[alike] = delta.shape[2], fill, differentiate_keys, differentiate_queries
    return d_q, d_k, d_v


def _terms(call: Call, padded_seq_q: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for delta and lse_log2."""
    delta = torch.empty((call.batch, call.heads, padded_seq_q), dtype=torch.float32, device=device)
    return delta, torch.empty_like(delta)


def _subtract(d_lse: torch.Tensor | None, delta: torch.Tensor, call: Call) -> None:
    """d lse / dS = P: it enters dS = P o (dP - delta) as delta does."""
    if d_lse is not None:
        delta[..., : call.seq_q] -= d_lse


def _key_gradient(tensors: tuple, how: Pass, shared: dict) -> Again | None:
    *_, d_k, d_v = tensors
    call = how.call
    return launch(
        key_gradient_kernel,
        call.key_blocks * call.batch * call.kv_heads,
        call,
        tensors,
        num_warps=how.warps,
        num_stages=min(how.stages, stages(call, d_k, 2 * call.block_q, 2 * call.block_kv)),
        d_k_strides=d_k.stride(),
        d_v_strides=d_v.stride(),
        **shared,
        EVEN=call.even,
        GROUP=call.heads // call.kv_heads,
        **call.sizes,
        **call.mask,
    )


def _query_gradient(tensors: tuple, how: Pass, shared: dict) -> Again | None:
    *_, d_q = tensors
    call = how.call
    return launch(
        query_gradient_kernel,
        call.programs,
        call,
        tensors,
        num_warps=how.warps,
        num_stages=min(how.stages, stages(call, d_q, 2 * call.block_kv, 2 * call.block_q)),
        d_q_strides=d_q.stride(),
        **shared,
        EVEN=call.even,
        **call.sizes,
        **call.mask,
    )
