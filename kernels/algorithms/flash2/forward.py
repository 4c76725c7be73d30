"""FlashAttention-2 (Dao, arXiv 2307.08691): query blocks outside, key blocks inside, divided once."""

from dataclasses import replace

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.algorithms.flash2.kernel import How, flash2_kernel
from kernels.algorithms.record import Algorithm, Tensors
from kernels.call.call import Call
from kernels.call.device import DTYPES, TMA_ALIGNMENT, device_of, unserved_strides
from kernels.call.terms import Terms, score_of, tensors_of, tile_of
from kernels.launch.block_times import BlockTimes
from kernels.launch.launch import (
    MOST_STAGES,
    address,
    interpreted,
    launch,
    options_given,
    output_like,
    stages,
)
from kernels.tilings import flash2 as tilings
from kernels.tilings.flash2 import HEADS_TOGETHER, MAX_HEAD_DIM, OWN_TILING, SHORT, V_TILING, warps


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
