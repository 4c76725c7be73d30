"""How a kernel is launched: on its tensors' device, with a word on what it lacked when it does not fit."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from threading import RLock
from typing import Any

import torch
import triton
from triton.runtime.errors import OutOfResources

from kernels.call.call import Call
from kernels.call.device import device_of
from kernels.call.value_checks import remember
from kernels.launch.relaunch import Relaunch, flat

DEFAULT_MULTIPROCESSORS = 132
MOST_STAGES = 3  # tiles in flight: more have not made a kernel faster
POINTER_ALIGNMENT = 16  # bytes; Triton compiles a kernel of its own for addresses that are no multiples
_LAUNCHED: dict[tuple, Relaunch] = {}  # by all of a launch's arguments but addresses
_HERE = nullcontext()
_INTERPRETING = RLock()  # the interpreter patches triton.language while a kernel runs
_GIVEN: ContextVar[dict[str, int] | None] = ContextVar("launch options that are given", default=None)


class OutOfSharedMemoryError(RuntimeError):
    """The compiled kernel needs more of the SM than a block can have; `required` and `limit` say how much."""

    def __init__(self, what: str, required: int, limit: int, resource: str):
        super().__init__(what, required, limit, resource)  # from which pickle makes it again
        self.what, self.required, self.limit, self.resource = self.args

    @property
    def lack(self) -> str:
        """What it needs and what there is."""
        unit = "bytes of shared memory a block" if self.resource == "shared memory" else self.resource
        return f"{self.what} needs {self.required} {unit}, this GPU has {self.limit}"

    def __str__(self) -> str:
        return f"{self.lack}: choose smaller blocks"


def interpreted() -> bool:
    """Whether the kernels run in Triton's interpreter rather than on a GPU."""
    return triton.knobs.runtime.interpret


def stages(tensor: torch.Tensor, streamed: int, resident: int) -> int:
    """Tiles in flight, 1 to 3: as many streamed elements of a step as fit beside the resident."""
    device = device_of(tensor.device)
    free = device.shared - device.resident(resident * tensor.element_size())
    return min(MOST_STAGES, max(1, free // (streamed * tensor.element_size())))


def output_like(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Room for O, [batch, heads, seq_q, head_dim of v]: laid out as q where that is dense."""
    if q.shape[-1] == v.shape[-1]:
        return torch.empty_like(q)
    shape = *q.shape[:-1], v.shape[-1]
    order = sorted(range(len(shape)), key=lambda dimension: -q.stride(dimension))
    out = torch.empty([shape[each] for each in order], dtype=q.dtype, device=q.device)
    return out.permute([order.index(each) for each in range(len(shape))])


@cache  # asking takes microseconds at every launch
def multiprocessors(device: torch.device) -> int:
    """SMs of a GPU; an H200's where there is none to ask."""
    if device.type != "cuda":
        return DEFAULT_MULTIPROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


@contextmanager
def launch_options(num_warps: int, num_stages: int) -> Iterator[None]:
    """Within it every launch takes these options rather than the kernel's own choice: for sweeps."""
    token = _GIVEN.set({"num_warps": num_warps, "num_stages": num_stages})
    try:
        yield
    finally:
        _GIVEN.reset(token)


def options_given() -> bool:
    """Whether launches are not to take the kernels' own options."""
    return _GIVEN.get() is not None


def launch(
    kernel, programs: int, call: Call, tensors: tuple, *, num_warps: int = 4, num_stages: int = 1, **arguments
) -> Relaunch | None:
    """Run `programs` programs of a kernel; raises OutOfSharedMemoryError where it does not fit the GPU.

    tensors come first in the kernel's signature, the rest is named. What was launched alike before is started
    without Triton's own look at every argument, which takes longer than a short kernel; returned is what does
    so, None in the interpreter and on an AMD GPU, for whose driver Triton hands on arguments of its own.
    """
    each = flat(tensors)
    device = each[0].device
    its = device_of(device)
    num_warps = its.warps(num_warps, call.widest)
    options = {"num_warps": num_warps, "num_stages": num_stages, **(_GIVEN.get() or {})}
    alike = (kernel, programs, device, *options.values(), *map(_kind, tensors), *arguments.values())
    if again := _LAUNCHED.get(alike):
        again(*addresses(each))
        return again
    try:
        with _INTERPRETING if interpreted() else on_device(device):
            compiled = kernel[(programs,)](*tensors, **arguments, **options)
    except OutOfResources as error:
        what = f"{call.algorithm} with {call.block_q} x {call.block_kv} blocks at head_dim {call.head_dim}"
        raise OutOfSharedMemoryError(what, error.required, error.limit, error.name) from None
    if compiled is None or its.amd:
        return None
    constants = [arguments[name] for name in kernel.arg_names[len(tensors) :]]
    again = Relaunch(compiled, programs, tensors, constants)
    remember(_LAUNCHED, alike, again)
    return again


def fitting(run: Callable[[Call], Any], call: Call) -> Any:
    """run(call); in blocks half as large, kept for the next time and said, where its own do not fit."""
    try:
        return run(call.memory.get("halved", call))
    except OutOfSharedMemoryError as error:
        half = None if "halved" in call.memory else call.halved()
        if half is None:
            raise
        call.memory["halved"] = half
        warnings.warn(f"{error.lack}: it runs {half.in_blocks}", RuntimeWarning, stacklevel=3)
        return run(half)


address = torch.Tensor.data_ptr  # of a tensor: what is mapped takes less time than a loop


def addresses(tensors: Iterable) -> list[int]:
    """Of tensors, and of those that TMA descriptors describe; None has none."""
    return [
        (tensor if isinstance(tensor, torch.Tensor) else tensor.base).data_ptr()
        for tensor in tensors
        if tensor is not None
    ]


def on_device(device: torch.device):
    """A context in which Triton may start a kernel on this device; `Relaunch` needs none."""
    here = device.type != "cuda" or device.index == torch.cuda.current_device()
    return _HERE if here else torch.cuda.device(device)  # which takes microseconds


def _kind(tensor) -> tuple | None:
    """What Triton compiles for of a tensor, of a descriptor's, or of each in a tuple."""
    if isinstance(tensor, torch.Tensor):
        return tensor.dtype, tensor.data_ptr() % POINTER_ALIGNMENT == 0
    if isinstance(tensor, tuple):
        return tuple(map(_kind, tensor))
    return None if tensor is None else _kind(tensor.base)
