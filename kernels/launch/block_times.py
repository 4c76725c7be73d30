"""Which SM ran each block of threads, and when: the GPU's clock read twice and a store, or nothing at all."""

import torch
import triton.language as tl

from kernels.tile.tile import inlined

COLUMNS = tl.constexpr(3)  # of a block: its SM, and the nanoseconds at which it started and ended


class BlockTimes:
    """What a call's kernels write of their blocks, by name: [blocks, 3], SM, nanoseconds of start and end."""

    def __init__(self, heavy_first: bool = True):
        self.heavy_first = heavy_first
        self.kernels: dict[str, torch.Tensor] = {}

    def room(self, kernel: str, blocks: int, device: torch.device) -> torch.Tensor:
        """Where a kernel of so many blocks writes them, 0 before."""
        self.kernels[kernel] = torch.zeros(blocks, COLUMNS.value, dtype=torch.int64, device=device)
        return self.kernels[kernel]


@inlined
def now(blocks):
    """Nanoseconds of the GPU's clock, which ticks every 32 on an H200; 0 where nothing is traced."""
    if blocks is not None:
        return tl.extra.cuda.globaltimer()
    else:
        return 0


@inlined
def store_times(blocks, start):
    """Write down this block's SM, its start, and as its end the moment when all of its warps are here."""
    if blocks is not None:
        tl.debug_barrier()
        end = tl.extra.cuda.globaltimer()
        row = blocks + tl.program_id(0).to(tl.int64) * COLUMNS
        tl.store(row, tl.extra.cuda.smid().to(tl.int64))
        tl.store(row + 1, start)
        tl.store(row + 2, end)
