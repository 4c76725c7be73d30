"""flash3 where half of the SMs or more would have no tile: each takes a part of a tile's keys."""

import torch

from kernels.algorithms.flash3.forward import (
    TILING,
    _prepared,
    compiled_for,
    next_counter,
    started,
    zeroed_counter,
)
from kernels.algorithms.split_kv import combine_splits
from kernels.call.call import Call, ceil_div
from kernels.launch.launch import address, multiprocessors, on_device
from kernels.launch.relaunch import Relaunch

FEWEST_SAVED = 16  # key blocks that an SM has less to visit: fewer did not pay for combining, on an H200
FEWEST_KEY_BLOCKS = 4  # of a part
HEAD_DIM, FEWEST_QUERIES = 128, 128  # for which, and from which on, it was measured against split_kv


def split_count(call: Call, processors: int) -> int | None:
    """Parts of the keys by which a call without a mask keeps more SMs at work; None where that does not pay.

    All parts of all tiles run at once.
    """
    if call.causal or call.scale <= 0 or call.head_dim != HEAD_DIM or call.seq_q < FEWEST_QUERIES:
        return None
    tiling = TILING[call.head_dim]
    tiles = call.batch * call.heads * ceil_div(call.seq_q, tiling["CONSUMERS"] * 64)
    key_blocks = ceil_div(call.seq_kv, tiling["BLOCK_KV"])
    splits = min(processors // tiles, key_blocks // FEWEST_KEY_BLOCKS)
    if splits < 2 or key_blocks - ceil_div(key_blocks, splits) < FEWEST_SAVED:
        return None
    return splits


def flash3_split(q, k, v, call: Call) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) as `kernels.algorithms.flash3.forward.flash3`, by call.splits parts of the keys."""
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    partial = torch.empty((call.splits, *q.shape), dtype=torch.float32, device=q.device)
    partial_lse = torch.empty((call.splits, *lse.shape), dtype=torch.float32, device=q.device)
    tensors = q, k, v, partial, partial_lse
    if again := call.memory.get("flash3_split"):
        _held, counter = next_counter(q.device)
        again(*map(address, tensors), counter)
    else:
        call.memory["flash3_split"] = _launch(*tensors, call)
    combine_splits(partial, partial_lse, out, lse, call)
    return out, lse


def _launch(q, k, v, partial, partial_lse, call: Call) -> Relaunch | None:
    """Start one block of threads for each part of a tile; returns what does so again."""
    from kernels.hopper.forward import attention_kernel

    tiles, descriptors, arguments = _prepared(q, k, v, q, False, None, call.scale)
    arguments |= {"splits": call.splits, "TRACED": False}
    tensors = (*descriptors[:3], partial, partial_lse, zeroed_counter(q.device), None, None)
    programs = min(multiprocessors(q.device), tiles * call.splits)
    with on_device(q.device):
        return started(attention_kernel, programs, tensors, compiled_for(arguments))
