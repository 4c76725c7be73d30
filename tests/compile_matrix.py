"""Compiles every kernel for GPUs that need not be here, in the blocks that it takes there by itself.

python -m tests.compile_matrix [sm_75 gfx942 ... | --sample] prints a line a kernel and case: whether it fits
the shared memory of a block, what it spills, and whether tensor cores multiply its matrices. Exit code 1
where one that is not NAMED does not fit or has no such instruction; spills from TOLD on are shown.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

os.environ["TRITON_INTERPRET"] = "0"

from triton.backends.compiler import GPUTarget

from kernels.backward import backward
from kernels.call import device
from kernels.dispatch import dispatch
from kernels.pages import plan
from kernels.tilings.device import Device
from tests.kernels import compile_for_hopper as offline

TARGETS = {  # KiB of shared memory of a block, threads of a warp, instructions of tensor cores
    "sm_75": (64, 32, None),
    "sm_80": (163, 32, "mma.sync"),
    "sm_86": (99, 32, "mma.sync"),
    "sm_89": (99, 32, "mma.sync"),
    "sm_90": (227, 32, r"wgmma\.mma|mma\.sync"),
    "sm_100": (227, 32, r"tcgen05\.mma|mma\.sync"),
    "sm_120": (99, 32, "mma.sync"),
    "gfx942": (64, 64, "v_mfma"),
    "gfx1100": (64, 32, "v_wmma"),
}
NAMED = {  # what a T4 holds in no blocks that there are
    ("sm_75", "float16", "64/512"),
    ("sm_75", "float16", "576/512"),
    ("sm_75", "float32", "256"),
}
TOLD = 128  # bytes of a thread that go to memory, from which on the table says so
DIMS, WAYS, OWN_V = ("64", "128", "256"), ("forward", "backward"), ("192/128", "64/256", "64/512")
CASES = (
    *(
        f"flash2:float16:{dim}:0:0:{mask}:{way}"
        for dim in DIMS
        for mask in ("causal", "terms")
        for way in WAYS
    ),
    *(
        f"{name}:float16:{dim}:0:0:causal:forward"
        for dim in DIMS
        for name in ("split_kv", "paged", "standard")
    ),
    *(f"flash1:float16:{dim}:0:0:window:forward" for dim in DIMS),
    *(f"flash2:float32:{dim}:0:0:causal:{way}" for dim in DIMS for way in WAYS),
    *(f"flash2:float16:{dims}:0:0:causal:{way}" for dims in OWN_V for way in WAYS),
    "flash2:bfloat16:128:0:0:none:forward",
    "split_kv:float16:576/512:0:0:none:forward",
    "parts:float16:128:0:0:none:forward",
)
ON_HOPPER = (
    *(f"flash3:float16:{dim}:0:0:causal:{way}" for dim in DIMS for way in WAYS),
    *(f"fp8:float16:{dim}:0:0:causal:forward" for dim in DIMS),
    "latent:bfloat16:576:0:0:none:forward",
)
SAMPLE = {
    "sm_75": "split_kv:float16:64:0:0:causal:forward",
    "sm_86": "flash2:float16:128:0:0:causal:backward",
    "sm_100": "flash2:float16:256:0:0:causal:backward",
    "sm_120": "flash2:bfloat16:256:64:32:causal:forward",
    "gfx942": "split_kv:float16:128:0:0:causal:forward",
    "gfx1100": "split_kv:float16:128:0:0:causal:forward",
}
MULTIPLY = re.compile("flash|scores|output|gradient_kernel|split_kernel|paged_kernel|attention|latent")


class Compiled(NamedTuple):
    """A kernel compiled for a GPU: bytes of shared memory of a block, and of a thread that are spilled."""

    target: str
    case: str
    kernel: str
    warps: int
    stages: int
    shared: int
    spilled: int
    multiplies: bool

    @property
    def named(self) -> bool:
        """Whether it is known that it does not fit, and a call is refused in a sentence."""
        return (self.target, *self.case.split(":")[1:3]) in NAMED

    @property
    def fault(self) -> str:
        """What is wrong with it, or nothing."""
        kib, _, cores = TARGETS[self.target]
        if self.shared > 1024 * kib:
            return f"does not fit {kib} KiB"
        wants = cores and "float32" not in self.case and MULTIPLY.search(self.kernel)
        return "no tensor cores" if wants and not self.multiplies else ""

    def __str__(self) -> str:
        name, dtype, dims, _, _, mask, way = self.case.split(":")
        told = self.fault or f"spills {self.spilled} bytes" * (self.spilled >= TOLD)
        shown = (
            f"{self.target:8}{name:9}{dtype:9}{dims:8}{mask:7}{way:9}{self.kernel:23}{self.warps:2} warps "
        )
        return f"{shown}{self.stages} stages{self.shared / 1024:6.0f} KiB  {told}".rstrip()


def compiled_for(target: str, cases: Sequence[str]) -> Iterator[Compiled]:
    """The kernels of these cases as a GPU would get them."""
    kib, warp, cores = TARGETS[target]
    amd = target.startswith("gfx")
    arch = target if amd else int(target.removeprefix("sm_"))
    offline.OfflineDriver.target = GPUTarget("hip" if amd else "cuda", arch, warp)
    device.WITHOUT_GPU = Device(target, 1024 * kib)
    backward.tilings.cache_clear()
    for memory in (dispatch._CHOSEN, plan._PLANNED):
        memory.clear()
    for case in cases:
        offline.launch_case(*case.split(":"))
        while KERNELS:
            kernel, log = KERNELS.pop(0)
            code = kernel.asm["amdgcn" if amd else "ptx"]
            asked = re.search(
                r"vgpr_spill_count:\s*(\d+)" if amd else r"(\d+) bytes spill stores", code + log
            )
            yield Compiled(
                *(target, case, kernel.metadata.name, kernel.metadata.num_warps, kernel.metadata.num_stages),
                *(kernel.metadata.shared, (4 if amd else 1) * int(asked[1] if asked else 0)),
                multiplies=bool(cores and re.search(cores, code)),
            )


KERNELS: list = []
offline.stand_in()
offline.compile_launches(KERNELS)


def main(targets: Sequence[str]) -> int:
    found, asked = [], {each: CASES + ON_HOPPER * (each == "sm_90") for each in targets or TARGETS}
    if targets == ["--sample"]:
        asked = {each: [case] for each, case in SAMPLE.items()}
    for target, cases in asked.items():
        for one in compiled_for(target, cases):
            print(one, flush=True)
            found.append(one)
    faults = sum(bool(one.fault) and not one.named for one in found)
    told = sum(one.spilled >= TOLD for one in found)
    print(f"{len(found)} kernels, {faults} faults, {told} that spill {TOLD} bytes of a thread or more")
    return min(1, faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
