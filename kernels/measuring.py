"""Kernels that compute no attention: one that reads a cache's whole bandwidth, one that marks a profile."""

import kernels.interpreter  # noqa: F401, I001 (before Triton is imported)
import torch
import triton
import triton.language as tl

TILE = 4096  # float32 numbers of a load, 16 KiB
WARPS = 8


@triton.jit
def read_cache_kernel(buffer, sums, tiles, passes, TILE: tl.constexpr):
    """Each program reads the whole buffer so many times, from a tile of its own on; past L1 (.cg)."""
    program = tl.program_id(0)
    lanes = tl.arange(0, TILE)
    total = tl.full([TILE], 0.0, tl.float32)
    for step in range(0, tiles * passes):
        tile = ((program + step) % tiles).to(tl.int64)
        total += tl.load(buffer + tile * TILE + lanes, cache_modifier=".cg")
    tl.store(sums + program, tl.sum(total))


def read_cache(buffer: torch.Tensor, programs: int, passes: int) -> torch.Tensor:
    """[programs] float32: the sum of what each read; together programs * passes times the buffer's bytes.

    buffer is float32, contiguous, of a multiple of TILE numbers; raises ValueError.
    """
    if buffer.dtype != torch.float32 or not buffer.is_contiguous() or buffer.numel() % TILE:
        raise ValueError(f"buffer must be contiguous float32 of a multiple of {TILE} numbers")
    sums = torch.empty(programs, dtype=torch.float32, device=buffer.device)
    read_cache_kernel[(programs,)](buffer, sums, buffer.numel() // TILE, passes, TILE=TILE, num_warps=WARPS)
    return sums


@triton.jit
def scenario_marker(place):
    """Every program stores the same 1; the grid tells in a profile which scenario follows."""
    tl.store(place, 1)
