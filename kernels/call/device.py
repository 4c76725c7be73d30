"""Which GPU a tensor lies on, by the name of its architecture, and whether its TMA copies tensors."""

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


DTYPES = (torch.float16, torch.bfloat16)
TMA_ALIGNMENT = 16  # bytes, of addresses and strides (CUDA driver API, cuTensorMapEncodeTiled)


def unserved_strides(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> str | None:
    """One sentence on why TMA does not copy these tensors, or None where it does."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.numel() == 0:
            return f"flash3 takes no empty tensors, {name} is {tuple(tensor.shape)}"
        if tensor.stride(-1) != 1:
            return f"flash3 needs head_dim contiguous, {name} has strides {tensor.stride()}"
        if tensor.data_ptr() % TMA_ALIGNMENT:
            return f"flash3 copies by TMA, which needs 16-byte-aligned addresses, {name} has none"
        for stride in outer_strides(tensor):
            if stride <= 0 or stride * tensor.element_size() % TMA_ALIGNMENT:
                return (
                    "flash3 copies by TMA, which needs strides above 0 in multiples of 16 bytes,"
                    f" {name} has strides {tensor.stride()}"
                )
    return None


def outer_strides(tensor: torch.Tensor) -> list[int]:
    """Strides of batch, heads and rows; of a single one any will do, and torch may give one TMA refuses."""
    return [
        stride if size > 1 else tensor.shape[-1]
        for size, stride in zip(tensor.shape[:-1], tensor.stride()[:-1], strict=True)
    ]
