"""Which GPU a tensor lies on: what its tilings follow, by the name of its architecture."""

from functools import cache

import torch
from triton.runtime import driver

from kernels.tilings.device import HOPPER, Device

WITHOUT_GPU = HOPPER


@cache  # asking takes microseconds at every launch
def device_of(device: torch.device) -> Device:
    """What of a GPU its tilings follow; an H200's where there is none to ask.

    Triton's driver names it as the compiler does, and has the limit by which it refuses a kernel. PyTorch's
    major capability is 9 on an MI300X too, and its properties there have no such limit.
    """
    if device.type != "cuda":
        return WITHOUT_GPU
    with torch.cuda.device(device):
        target = driver.active.get_current_target()
        limits = driver.active.utils.get_device_properties(torch.cuda.current_device())
    architecture = str(target.arch) if target.backend == "hip" else f"sm_{target.arch}"
    return Device(architecture.partition(":")[0], limits["max_shared_mem"])
