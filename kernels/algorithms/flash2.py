"""FlashAttention-2 (Dao, arXiv 2307.08691): query blocks outside, key blocks inside, divided once."""

from dataclasses import replace
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.algorithms.record import Algorithm, Tensors
from kernels.call.call import Call
from kernels.call.device import DTYPES, TMA_ALIGNMENT, device_of, unserved_strides
from kernels.call.terms import Terms, score_of, tensors_of, tile_of
from kernels.launch.block_times import BlockTimes, now, store_times
from kernels.launch.launch import (
    MOST_STAGES,
    address,
    interpreted,
    launch,
    options_given,
    output_like,
    stages,
)
from kernels.tile.scores import capped, key_blocks_in, masked, seen_by, sink_of, slope_of, sloped
from kernels.tile.tile import (
    added_of_seen,
    any_not_finite,
    head_start,
    inlined,
    load_tile,
    log_sum_exp,
    matmul,
    narrowed,
    normalised,
    online_softmax_update,
    softmax_step,
    store_probe,
    store_tile,
)
from kernels.tilings import flash2 as tilings
from kernels.tilings.flash2 import HEADS_TOGETHER, MAX_HEAD_DIM, OWN_TILING, SHORT, V_TILING, warps


@inlined
def load_keys(
    tensor, key_block, seq_kv,
    HEAD_DIM: tl.constexpr, BLOCK_KV: tl.constexpr, RAGGED: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """A block of a head of K or V, zero past its end."""
    head, place, columns = tensor
    if TMA:
        return head.load([place[0], place[1], key_block * BLOCK_KV, 0]).reshape(BLOCK_KV, columns.shape[0])
    else:
        keys = key_block * BLOCK_KV + tl.arange(0, BLOCK_KV)
        return load_tile(head, place, keys, columns, seq_kv, HEAD_DIM, RAGGED)


@inlined
def attend(
    q, key_tensor, value_tensor, state, span, queries, sizes, score, view, slope, probe, probe_tile,
    TILE: tl.constexpr, MASK: tl.constexpr, RAGGED: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """Take key blocks start to stop - 1 into a query block's softmax; state: m, l and the accumulator.

    span: (start, stop, whole_start, whole_stop). MASK: "none" of the blocks has hidden keys, "all" may have,
    or the "edges", all but whole_start to whole_stop - 1. RAGGED: the last may reach past the last key.
    """
    running_max, running_sum, accumulator = state
    start, stop, whole_start, whole_stop = span
    for key_block in range(start, stop):
        keys = key_block * TILE.BLOCK_KV + tl.arange(0, TILE.BLOCK_KV)
        k = load_keys(key_tensor, key_block, sizes[1], TILE.HEAD_DIM, TILE.BLOCK_KV, RAGGED, TMA)
        v = load_keys(value_tensor, key_block, sizes[1], TILE.V_DIM, TILE.BLOCK_KV, RAGGED, TMA)
        # S = Q K^T, and what the call's terms and mask make of it
        products = matmul(q, tl.trans(k))
        if view is not None:
            products = sloped(capped(products, score[1], TILE.FINE), slope, view, keys[None, :])
        if MASK == "all":
            products = masked(products, queries[:, None], keys[None, :], sizes, view, TILE)
        elif MASK == "edges":  # noqa: SIM102 (known when compiling, what follows is not)
            if (key_block < whole_start) | (key_block >= whole_stop):
                products = masked(products, queries[:, None], keys[None, :], sizes, view, TILE)
        # m, l and O rescaled by alpha, and O += P V
        running_max, running_sum, accumulator, alpha = online_softmax_update(
            products, v, running_max, running_sum, accumulator, score[0]
        )
        if probe is not None:
            valid, tile = queries < sizes[0], probe_tile + key_block
            store_probe(probe, tile, valid, running_max, running_sum, alpha, queries.shape[0])
    return running_max, running_sum, accumulator


@inlined
def attend_few(
    q, key_tensor, value_tensor, state, span, queries, sizes, score, view, slope, TILE: tl.constexpr,
):  # fmt: skip
    """As `attend`, a few keys at a time: NaN in V reaches the queries alone that see its key."""
    running_max, running_sum, accumulator = state
    for few in range(span[0] * (TILE.BLOCK_KV // TILE.FEW), span[1] * (TILE.BLOCK_KV // TILE.FEW)):
        keys = few * TILE.FEW + tl.arange(0, TILE.FEW)
        k = load_tile(key_tensor[0], key_tensor[1], keys, key_tensor[2], sizes[1], TILE.HEAD_DIM, True)
        products = capped(matmul(q, tl.trans(k)), score[1], TILE.FINE)
        products = sloped(products, slope, view, keys[None, :])
        products = masked(products, queries[:, None], keys[None, :], sizes, view, TILE)
        running_max, running_sum, alpha, weights = softmax_step(products, running_max, running_sum, score[0])
        accumulator = added_of_seen(
            accumulator * alpha[:, None], narrowed(weights, value_tensor[0].dtype.element_ty),
            products != float("-inf"), value_tensor, keys, value_tensor[2], sizes[1], TILE.V_DIM,
        )  # fmt: skip
    return running_max, running_sum, accumulator


@inlined
def attend_apart(
    q, key_tensor, value_tensor, state, span, queries, sizes, score, view, slope, probe, probe_tile,
    TILE: tl.constexpr, MASK: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """`attend` in up to three loops: the window's far edge, the whole blocks, the diagonal or ragged end."""
    start, stop, whole_start, whole_stop = span
    if TILE.WINDOWED or view is not None:
        state = attend(
            q, key_tensor, value_tensor, state, (start, whole_start, 0, 0), queries, sizes, score,
            view, slope, probe, probe_tile, TILE, "all", True, TMA,
        )  # fmt: skip
    state = attend(
        q, key_tensor, value_tensor, state, (whole_start, whole_stop, 0, 0), queries, sizes, score,
        view, slope, probe, probe_tile, TILE, "none", False, TMA,
    )  # fmt: skip
    if MASK != "none":
        state = attend(
            q, key_tensor, value_tensor, state, (whole_stop, stop, 0, 0), queries, sizes, score,
            view, slope, probe, probe_tile, TILE, "all", True, TMA,
        )  # fmt: skip
    return state


@inlined
def place(query_blocks, HEAVY_FIRST: tl.constexpr, TOGETHER: tl.constexpr):
    """(query block, batch and head) of this program: TOGETHER heads begin with their heaviest blocks."""
    program = tl.program_id(0)
    if not HEAVY_FIRST:
        return program % query_blocks, program // query_blocks
    elif TOGETHER == 1:
        return query_blocks - 1 - program % query_blocks, program // query_blocks
    else:
        first = program // (TOGETHER * query_blocks) * TOGETHER
        heads = tl.minimum(TOGETHER, tl.num_programs(0) // query_blocks - first)
        in_set = program - first * query_blocks
        return query_blocks - 1 - in_set // heads, first + in_set % heads


class How(NamedTuple):
    """What flash2's kernel is compiled for and changes no result; HEAVY_FIRST and TOGETHER: see `place`."""

    EVEN: bool
    TMA: bool
    HEAVY_FIRST: bool
    TOGETHER: int


@triton.jit(do_not_specialize=["heads", "kv_heads", "seq_q", "seq_kv", "window"])
def flash2_kernel(
    q, k, v, out, lse, probe, blocks, terms, strides, heads, kv_heads, seq_q, seq_kv, window, score,
    TILE: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """One program a query block of a head; score: (scale in units of log2, cap); lse is contiguous."""
    MASK: tl.constexpr = "edges" if TILE.CAUSAL or not HOW.EVEN or TILE.RANGES else "none"
    began = now(blocks)
    q_strides, k_strides, v_strides, out_strides = strides
    sizes = (seq_q, seq_kv, window)
    query_blocks = tl.cdiv(seq_q, TILE.BLOCK_Q)
    key_blocks = tl.cdiv(seq_kv, TILE.BLOCK_KV)
    query_block, batch_head = place(query_blocks, HOW.HEAVY_FIRST, HOW.TOGETHER)
    batch = batch_head // heads
    head = batch_head % heads
    kv_head = head // (heads // kv_heads)

    queries = query_block * TILE.BLOCK_Q + tl.arange(0, TILE.BLOCK_Q)
    columns, v_columns = tl.arange(0, TILE.BLOCK_D), tl.arange(0, TILE.BLOCK_V)
    if HOW.TMA:
        key_tensor = (k, (batch, kv_head), columns)
        value_tensor = (v, (batch, kv_head), v_columns)
    else:
        key_tensor = (head_start(k, k_strides, batch, kv_head), k_strides, columns)
        value_tensor = (head_start(v, v_strides, batch, kv_head), v_strides, v_columns)
    probe_tile = (batch_head.to(tl.int64) * query_blocks + query_block) * key_blocks
    q_head = head_start(q, q_strides, batch, head)
    q_tile = load_tile(q_head, q_strides, queries, columns, seq_q, TILE.HEAD_DIM, True)
    if HOW.TMA and MASK == "none" and TILE.HEAD_DIM == 128 and TILE.BLOCK_Q == 128:
        # what was loaded goes to shared memory, what was computed stays in registers, and Q K^T reads K alone
        q_tile = tl.where(queries[:, None] < seq_q, q_tile, 0.0)
    running_max = tl.full([TILE.BLOCK_Q], float("-inf"), tl.float32)
    running_sum = tl.full([TILE.BLOCK_Q], 0.0, tl.float32)
    if TILE.RANGES:  # noqa: SIM102 (there is nothing of it else)
        if terms.sinks is not None:
            running_max, running_sum = sink_of(terms.sinks, head, queries >= 0)
    accumulator = tl.full([TILE.BLOCK_Q, TILE.BLOCK_V], 0.0, tl.float32)

    first = query_block * TILE.BLOCK_Q
    last = tl.minimum(first + TILE.BLOCK_Q, seq_q) - 1
    view = None
    slope = None
    if TILE.RANGES:
        view = seen_by(terms.ranges, batch, queries[:, None], seq_q)
        slope = None if terms.slopes is None else slope_of(terms.slopes, batch_head, score[0])
    start, full_start, full_stop, stop = key_blocks_in(terms, batch, first, last, sizes, TILE)
    state = (running_max, running_sum, accumulator)
    span = (start, stop, full_start, full_stop)
    if (
        HOW.TMA and TILE.HEAD_DIM > 64
    ):  # a second loop begins with empty buffers; no other block on the SM hides that
        running_max, running_sum, accumulator = attend(
            q_tile, key_tensor, value_tensor, state, span, queries, sizes, score,
            view, slope, probe, probe_tile, TILE, MASK, False, True,
        )  # fmt: skip
    else:
        running_max, running_sum, accumulator = attend_apart(
            q_tile, key_tensor, value_tensor, state, span, queries, sizes, score,
            view, slope, probe, probe_tile, TILE, MASK, HOW.TMA,
        )  # fmt: skip
    if TILE.RANGES:  # noqa: SIM102 (known when compiling, what follows is not)
        if any_not_finite(accumulator):  # perhaps of a sequence that only shares a tile
            k_head = head_start(terms.k, k_strides, batch, kv_head)
            v_head = head_start(terms.v, v_strides, batch, kv_head)
            running_max, running_sum, accumulator = attend_few(
                q_tile, (k_head, k_strides, columns), (v_head, v_strides, v_columns), state, span,
                queries, sizes, score, view, slope, TILE,
            )  # fmt: skip

    lse_rows = lse + batch_head.to(tl.int64) * seq_q + queries
    tl.store(lse_rows, log_sum_exp(running_max, running_sum), mask=queries < seq_q)
    out_head = head_start(out, out_strides, batch, head)
    store_tile(
        out_head, out_strides, queries, v_columns, seq_q, TILE.V_DIM, normalised(accumulator, running_sum)
    )
    store_times(blocks, began)


def own_tiling(call: Call, tensor: torch.Tensor) -> tuple[int, int, int, int]:
    """block_q, block_kv, warps and most stages of a call whose K and V are copied by TMA."""
    return tilings.own_tiling(call.head_dim, call.seq_kv, call.v_dim, device_of(tensor.device))


def served_by_tma(call: Call, q, k, v) -> bool:
    """Whether flash2 can copy K and V by TMA, on a GPU that has it."""
    tiled = call.head_dim in OWN_TILING if call.v_dim is None else (call.head_dim, call.v_dim) in V_TILING
    return tiled and q.dtype in DTYPES and unserved_strides(q, k, v) is None


def tma_serves(call: Call, q, k, v) -> bool:
    """Whether K and V can be copied by TMA: from Hopper on, where the layout is one that TMA takes."""
    if not q.is_cuda or interpreted():
        return False
    strides = [stride * k.element_size() for tensor in (k, v) for stride in tensor.stride()[:-1]]
    return (
        device_of(q.device).tma
        and served_by_tma(call, q, k, v)
        and all(stride > 0 and stride % TMA_ALIGNMENT == 0 for stride in strides)
    )


def loop_stages(call: Call, tensor: torch.Tensor) -> int:
    """Blocks of K and V in flight beside a block of Q, and of P where its rows' O takes two warp groups."""
    shared = call.block_kv if call.out_dim > MAX_HEAD_DIM else 0
    columns = call.padded_head_dim
    return stages(tensor, call.block_kv * (columns + call.padded_out_dim), call.block_q * (columns + shared))


def heads_together(call: Call) -> int:
    """How many heads start with their heaviest query blocks together."""
    return HEADS_TOGETHER[call.widest] if call.tma and call.seq_kv > SHORT and call.window is None else 1


def with_tma(call: Call, k: torch.Tensor) -> Call:
    """A call whose K and V are copied by TMA, in its own tiling's blocks where two of K and V fit."""
    block_q, block_kv, *_ = own_tiling(call, k)
    own = replace(call, tma=True, block_q=block_q, block_kv=block_kv)
    return own if loop_stages(own, k) >= 2 else replace(call, tma=True)


def flash2(
    q, k, v, call: Call, probe=None, times: BlockTimes | None = None, terms: Terms | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `Algorithm.forward`."""
    out = torch.empty_like(q) if call.v_dim is None else output_like(q, v)
    lse = torch.empty((call.batch, call.heads, call.seq_q), dtype=torch.float32, device=q.device)
    plain = probe is None and times is None and terms is None and not options_given()
    if plain and (again := call.memory.get("flash2")):
        again(*map(address, (q, k, v, out, lse)))
        return out, lse
    keys, values = k, v
    if call.tma:
        keys, values = described(k, call.padded_head_dim, call), described(v, call.padded_out_dim, call)
    programs = call.programs
    *blocks, num_warps, most_stages = own_tiling(call, q) if call.tma else (0, 0, 0, 0)
    if blocks != [call.block_q, call.block_kv]:
        num_warps, most_stages = warps(call.block_q, call.out_dim), MOST_STAGES
    heavy_first = call.causal and (times is None or times.heavy_first)
    together = heads_together(call) if call.causal and times is None else 1
    extra = tensors_of(terms)
    if extra is not None:
        extra = extra._replace(k=k, v=v)
    again = launch(
        flash2_kernel,
        programs,
        call,
        (q, keys, values, out, lse, probe, times and times.room("attention", programs, q.device), extra),
        num_warps=num_warps,
        num_stages=min(most_stages, loop_stages(call, q)),
        strides=(q.stride(), k.stride(), v.stride(), out.stride()),
        score=score_of(call, terms),
        TILE=tile_of(call, terms),
        HOW=How(call.even, call.tma, heavy_first, together),
        **call.sizes,
    )
    if plain and again is not None:
        call.memory["flash2"] = again
    return out, lse


def described(tensor: torch.Tensor, columns: int, call: Call) -> TensorDescriptor:
    """A TMA descriptor of blocks of one head, which never reach into the next; 0 past its columns."""
    block = [1, 1, call.block_kv, columns]
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block)


def prepared(call: Call, own_blocks: bool, tensors: Tensors, processors: int) -> Call:
    """With K and V copied by TMA where that serves them, and blocks are not given."""
    return with_tma(call, tensors[1]) if own_blocks and tma_serves(call, *tensors) else call


ALGORITHM = Algorithm(
    key="flash2",
    order=2,
    forward=flash2,
    prepared=prepared,
    fallback=True,
    differentiable=True,
    probed=True,
    traced=True,
)
