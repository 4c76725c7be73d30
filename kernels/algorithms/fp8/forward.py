"""Attention in FP8 (e4m3) on Hopper: its tilings, and its launches."""

import math

import torch

from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.fp8.quantise import QUERIES, Quantised, quantise
from kernels.algorithms.record import Algorithm
from kernels.call.call import Call, ceil_div
from kernels.call.device import DTYPES
from kernels.launch.launch import multiprocessors
from kernels.launch.relaunch import Relaunch
from kernels.tilings.flash3 import heads_together

_TWO_CONSUMERS = {"CONSUMERS": 2, "CONSUMER_REGISTERS": 240, "PRODUCER_REGISTERS": 24}
_THREE_CONSUMERS = {"CONSUMERS": 3, "CONSUMER_REGISTERS": 160, "PRODUCER_REGISTERS": 32}
TILING = {  # by head dim; a consumer has 64 query rows
    64: {"BLOCK_KV": 128, "Q_BUFFERS": 2, "KV_BUFFERS": 4, "TURNS": False, **_THREE_CONSUMERS},
    128: {"BLOCK_KV": 128, "Q_BUFFERS": 2, "KV_BUFFERS": 4, "TURNS": False, **_TWO_CONSUMERS},
    256: {"BLOCK_KV": 128, "Q_BUFFERS": 1, "KV_BUFFERS": 2, "TURNS": False, **_TWO_CONSUMERS},
}


def fp8(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, call: Call, *, rotate=True, one_scale=False
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `Algorithm.forward`, computed in e4m3; rotate, and one_scale for each tensor: see `quantise`."""
    key_rows = TILING[call.head_dim]["BLOCK_KV"]
    quantised = quantise(q, k, v, call, key_rows=key_rows, rotate=rotate, one_scale=one_scale)
    return attend(quantised, call, q)


def attend(quantised: Quantised, call: Call, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) of tensors that are quantised; out is like a tensor of 16 bits."""
    out = torch.empty_like(like)
    written = out if out.stride(-1) == 1 else torch.empty(out.shape, dtype=out.dtype, device=out.device)
    lse = torch.empty(out.shape[:3], dtype=torch.float32, device=out.device)
    scales = (quantised.q_scales, quantised.k_scales, quantised.v_scales)
    tensors = (quantised.q, quantised.k, quantised.v, written, lse, *scales)
    flash3.relaunched(call.memory, "fp8", lambda: _launch(tensors, call), tensors)
    return (out if written is out else out.copy_(written)), lse


def _launch(tensors: tuple, call: Call) -> Relaunch | None:
    """Start one block of threads an SM, or one a tile if there are fewer; returns what does so again."""
    from kernels.hopper.fp8 import attention_fp8_kernel

    q, k, v, out, *others = tensors
    chosen = dict(TILING[call.head_dim])
    block_kv = chosen.pop("BLOCK_KV")
    query_blocks = ceil_div(call.seq_q, QUERIES * chosen["CONSUMERS"])
    sharing = call.heads // call.kv_heads
    bytes_of_keys = 2 * call.seq_kv * call.head_dim
    arguments = {
        "batch_heads": call.batch * call.heads,
        "heads": call.heads,
        "heads_per_kv_head": sharing,
        "heads_together": heads_together(call.batch * call.kv_heads, sharing, bytes_of_keys),
        "query_blocks": query_blocks,
        "seq_q": call.seq_q,
        "seq_kv": call.seq_kv,
        "scale_log2": call.scale * math.log2(math.e),
        **flash3.ANYWHERE,
        "CAUSAL": call.causal,
        "ALIGNED": not call.causal or (call.seq_kv - call.seq_q) % QUERIES == 0,
        **chosen,
    }
    descriptors = [
        flash3._descriptor(q, QUERIES),
        flash3._descriptor(k, block_kv),
        flash3._descriptor(v, call.head_dim, block_kv),
        flash3._descriptor(out, QUERIES),
    ]
    programs = min(multiprocessors(q.device), call.batch * call.heads * query_blocks)
    tensors = (*descriptors, *others, flash3.zeroed_counter(q.device))
    return flash3.started(attention_fp8_kernel, programs, tensors, flash3.compiled_for(arguments))


ALGORITHM = Algorithm(
    key="fp8",
    order=4,
    forward=fp8,
    serves=frozenset(("causal",)),
    dtypes=DTYPES,  # of what is quantised, and of O
    head_dims=tuple(TILING),
    own_v_dim=False,
    hopper=True,
    chooses_blocks=True,
    reason="it was asked for, and auto never takes it, because numbers of 8 bits change the result",
)
