"""A memory of what the host worked out, of bounded size, and by what its entries are told apart."""

import torch
from torch._C import _is_any_autocast_enabled, _len_torch_dispatch_stack
from torch.autograd import forward_ad

from kernels.call.value_checks import PLAIN

ALIGNMENT = 16  # bytes, of addresses: Triton compiles a kernel of its own for others
REMEMBERED = 4096  # entries of a memory of what the host worked out; one that is full begins anew


def remember(memory: dict, key, value) -> None:
    """Keep a value in a memory of bounded size."""
    if len(memory) >= REMEMBERED:
        memory.clear()
    memory[key] = value


def alike_of(tensors: tuple, given: dict) -> tuple | None:
    """By what calls of these are told apart whose launches differ in no more than addresses.

    None where PyTorch has to see them or changes them, as under autocast, a transform or a mode and for a
    gradient.
    """
    if torch.compiler.is_compiling() or _len_torch_dispatch_stack() or _is_any_autocast_enabled():
        return None
    if (
        torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._is_tracing()
    ):
        return None
    values, tensors = [], list(tensors)
    for value in given.values():
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        else:
            values.append(tuple(value) if type(value) is list else value)
    try:
        hash(tuple(values))
    except TypeError:  # of a value that nobody takes
        return None
    alike = [*given, *values, *map(type, given.values())]  # True equals 1
    with_gradient = torch.is_grad_enabled()
    try:
        for each in tensors:
            if type(each) not in PLAIN or each.is_neg() or (with_gradient and each.requires_grad):
                return None
            alike += each.shape, each.stride(), each.dtype, each.device, each.data_ptr() % ALIGNMENT == 0
    except (RuntimeError, AttributeError):  # of no strides
        return None
    return tuple(alike)


def like_empty(out: torch.Tensor, q: torch.Tensor) -> bool:
    """Whether O is laid out as `torch.empty_like` lays it out, which takes less time than all else."""
    return out.shape == q.shape and out.stride() == torch.empty_like(q).stride()
