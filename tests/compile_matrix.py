"""Compiles every kernel for GPUs that this machine does not have, in the blocks that it takes there by itself.

python -m tests.compile_matrix [sm_75 gfx942 ...] prints a line a kernel and case: whether it fits the shared
memory of a block, what it spills, and the instructions that multiply its matrices. Exit code 1 where one does
not fit or an instruction of tensor cores is missing; spills from SPILLS on are told.
"""

import re
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).with_name("kernels"))]

import compile_for_hopper as offline
import torch
from triton.backends.compiler import GPUTarget

from kernels import attention
from kernels.call import device as its
from kernels.dispatch import dispatch
from kernels.tilings.device import Device

KIB = 1024
TARGETS = {  # KiB of shared memory of a block, threads of a warp, instructions of tensor cores
    "sm_75": (64, 32, None),
    "sm_80": (163, 32, "mma.sync"),
    "sm_86": (99, 32, "mma.sync"),
    "sm_89": (99, 32, "mma.sync"),
    "sm_90": (227, 32, "wgmma|mma.sync"),
    "sm_100": (227, 32, "tcgen05.mma|mma.sync"),
    "sm_120": (99, 32, "mma.sync"),
    "gfx942": (64, 64, "v_mfma"),
    "gfx1100": (64, 32, "v_wmma"),
}
SPILLS = 128  # bytes of a thread, below which nothing is said
DIMS = (64, 128, 256)
CASES = (
    *(f"flash2:float16:{dim}:0:0:{mask}:forward" for dim in DIMS for mask in ("none", "causal", "terms")),
    *(f"flash2:float16:{dim}:0:0:{mask}:backward" for dim in DIMS for mask in ("causal", "terms")),
    *(f"{name}:float16:{dim}:0:0:causal:forward" for dim in DIMS for name in ("split_kv", "paged")),
    *(f"{name}:float16:{dim}:0:0:causal:forward" for dim in DIMS for name in ("standard", "flash1")),
    *(f"flash2:float32:{dim}:0:0:causal:forward" for dim in DIMS),
    *(f"flash2:float32:{dim}:0:0:causal:backward" for dim in DIMS),
    *(f"flash2:float16:{dims}:0:0:causal:{way}" for dims in ("192/128", "64/256", "64/512") for way in WAYS),
    "flash2:bfloat16:128:0:0:causal:forward",
    "flash2:float16:576/512:0:0:causal:forward",
    "parts:float16:128:0:0:none:forward",
)
