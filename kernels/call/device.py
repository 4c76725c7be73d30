"""Which GPU a tensor lies on: what its tilings follow, by the name of its architecture."""

from functools import cache

import torch

from kernels.tilings.device import HOPPER, Device

WITHOUT_GPU = HOPPER  # an H200's


def device_of(device: torch.device) -> Device:
    """What of a GPU its tilings follow; an H200's where there is none to ask."""
    return WITHOUT_GPU if device.type != "cuda" else _asked(device)


@cache  # asking takes microseconds at every launch
def _asked(device: torch.device) -> Device:
    """Triton's driver names a GPU as its compiler does, and has the limit by which it refuses a kernel.

    PyTorch's major capability is 9 on an MI300X too, and its properties there have no such limit.
    """
    from triton.runtime import driver  # which must not be imported before `kernels.interpreter` is

    with torch.cuda.device(device):
        target = driver.active.get_current_target()
        limits = driver.active.utils.get_device_properties(torch.cuda.current_device())
    architecture = str(target.arch) if target.backend == "hip" else f"sm_{target.arch}"
    return Device(architecture.partition(":")[0], limits["max_shared_mem"])
