"""Attention kernels in Triton: torch tensors in, torch tensors out.

Without a CUDA device the kernels run in Triton's interpreter, which importing this package switches on. The
interpreter is for correctness, not speed, and not safe to use from several threads at once.
"""

from kernels._triton import TritonMissingError
from kernels.attention import Probed, Traced, attention, explain, probe_attention, trace_attention
from kernels.attention_fp8 import attention_fp8
from kernels.call import split_blocks
from kernels.launch import OutOfSharedMemoryError, interpreted, launch_options
from kernels.marker import scenario_marker
from kernels.paged import attention_paged
from kernels.read_cache import read_cache
from kernels.reference import reference_attention
from kernels.split_kv import merge
from kernels.varlen import attention_varlen

__all__ = [
    "OutOfSharedMemoryError",
    "Probed",
    "Traced",
    "TritonMissingError",
    "attention",
    "attention_fp8",
    "attention_paged",
    "attention_varlen",
    "explain",
    "interpreted",
    "launch_options",
    "merge",
    "probe_attention",
    "read_cache",
    "reference_attention",
    "scenario_marker",
    "split_blocks",
    "trace_attention",
]
