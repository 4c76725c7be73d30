"""python -m engine bench-kernels --cache: what L2 alone delivers to the SMs, beside the presets' peak.

What the SMs take in: neighbours that request the same at once get one answer, so that L2 itself gives less.
"""

import sys
from functools import partial

from engine.measuring.clock import ON_GPU, in_turns
from engine.measuring.libraries import kernels, torch
from engine.measuring.machine import machine
from engine.problem.hardware import MIB, gpu_named

SIZES = (4, 8, 16, 24)  # MiB of the buffer: half of an H100's L2 and less, so that either half can hold it
PROGRAMS_SM = 8  # blocks of eight warps: all that an SM holds
PASSES = 8  # the first brings the buffer from memory, of which all programs together are a small part


def moved(size: int, programs: int) -> int:
    """Bytes that all programs read of a buffer of so many MiB."""
    return size * MIB * programs * PASSES


def run() -> int:
    """Print bytes/s for each size of buffer; 0, or 2 without a GPU."""
    where = machine()
    if not where.cuda:
        print("the cache of a GPU is measured on a GPU: there is none", file=sys.stderr)
        return 2
    programs = PROGRAMS_SM * torch.cuda.get_device_properties(0).multi_processor_count
    buffers = {str(size): torch.ones(size * MIB // 4, device="cuda") for size in SIZES}
    calls = {name: partial(kernels.read_cache, buffer, programs, PASSES) for name, buffer in buffers.items()}
    gpu = gpu_named(where.device)
    for name, times in in_turns(calls, ON_GPU, cuda=True).items():
        rate = moved(int(name), programs) / times.p50
        share = "" if gpu is None else f", {rate / gpu.cache_bytes_per_second:.0%} of its preset's peak"
        print(f"{where.device}: {name} MiB, L2 to SMs {rate / 1e12:.2f} TB/s{share}")
    return 0
