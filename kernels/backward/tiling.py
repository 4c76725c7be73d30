"""In which blocks, with how many warps and stages, the two large kernels of the backward pass run."""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import torch

from kernels.call.call import Call, default_blocks
from kernels.call.remember import REMEMBERED
from kernels.launch.launch import MOST_STAGES, warps
from kernels.tilings.backward import KEY_TILING, QUERY_TILING, V_KEY_TILING


class Pass(NamedTuple):
    """How one of the two large kernels runs; stages is the most it uses, fewer where they do not fit."""

    call: Call
    warps: int
    stages: int


@lru_cache(REMEMBERED)
def tilings(call: Call, dtype: torch.dtype, block_q: int | None, block_kv: int | None) -> tuple[Pass, Pass]:
    """How the key gradient runs, and how the query gradient: in the blocks given, or in the fastest known."""
    own = block_q is None and block_kv is None and dtype != torch.float32
    if own:
        keys, queries = (tiling[max(64, call.widest)] for tiling in (KEY_TILING, QUERY_TILING))
        keys = V_KEY_TILING.get((call.head_dim, call.out_dim), keys)
    else:
        wide, narrow = default_blocks(call.widest, dtype) if dtype == torch.float32 else (64, 64)
        keys = (block_q or narrow, block_kv or wide)
        queries = (block_q or wide, block_kv or narrow)
        keys = (*keys, 8 if call.widest > 128 else warps(keys[1]), MOST_STAGES)
        queries = (*queries, warps(queries[0], call.widest), MOST_STAGES)
    return tuple(
        Pass(replace(call, block_q=rows, block_kv=columns), *launched)
        for rows, columns, *launched in (keys, queries)
    )
