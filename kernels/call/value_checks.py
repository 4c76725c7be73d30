"""Single values as arguments: what they must be, how errors show them, and by what calls are remembered."""

import sys
from contextlib import nullcontext
from numbers import Integral, Real

import torch
from torch._C import _is_any_autocast_enabled, _is_tracing, _len_torch_dispatch_stack
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd import forward_ad

from kernels.call.device import device_of

PLAIN = (torch.Tensor, torch.nn.Parameter)  # neither fake nor traced
INDEX = (torch.int32, torch.int64)
NOWHERE = nullcontext()
AMD = "gfx942", "gfx1100"  # architectures for which every kernel is compiled by `tests.compile_matrix`
LARGEST = sys.float_info.max  # math.isfinite has no graph where PyTorch compiles for any number
LONGEST_SHOWN = 100  # characters of a value in an error
FLAGS = ("bool", "bool_", "SymBool")  # of numpy, and of PyTorch where it traces


def shown(value) -> str:
    """A value as an error shows it: short, and on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_SHOWN else kind(value)


def said(tensor: torch.Tensor) -> str:
    """A tensor as an error shows it."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)} on {tensor.device}"


def kind(value) -> str:
    """What a value is, with its article."""
    name = type(value).__name__
    return f"a{'n' * (name[0] in 'aeiou')} {name}"


def must(holds, name: str, value, wanted: str) -> None:
    """ValueError with one sentence where it does not hold: what, its value, what it must be."""
    if not holds:
        raise ValueError(f"{name} is {shown(value)}, it must be {wanted}")


def check_is_tensor(name: str, value) -> None:
    """TypeError with one sentence for what is no tensor."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is {kind(value)}, it must be a torch.Tensor")


def check_build(tensor) -> None:
    """RuntimeError with one sentence for an AMD GPU that the kernels were never compiled for."""
    if torch.version.hip is None or torch.compiler.is_compiling() or not isinstance(tensor, torch.Tensor):
        return
    if (found := device_of(tensor.device)).amd and found.architecture not in AMD:
        named = " and ".join(AMD)
        raise RuntimeError(f"this GPU is {found.architecture}: of AMD's the kernels are compiled for {named}")


def check_layout(name: str, value, layout: str) -> None:
    """TypeError or ValueError with one sentence for what is no tensor with strides of these dimensions."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_nested:
        check_is_tensor(name, value)  # not asked first: a call would take longer than all of this
        raise ValueError(f"{name} is sparse or nested, it must be a tensor with strides")
    if value.dim() != layout.count(",") + 1:
        raise ValueError(f"{name} has shape {tuple(value.shape)}, it must be {layout}")


def check_layouts(layout: str, **tensors) -> None:
    """The same of several, by name."""
    for name, tensor in tensors.items():
        check_layout(name, tensor, layout)


def check_apart(name: str, tensor: torch.Tensor) -> None:
    """ValueError with one sentence for what is to be written and has one place for several numbers."""
    if not all(tensor.stride()) and any(
        size > 1 and not step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    ):
        raise ValueError(f"{name} is expanded, no keys can be written there: clone() first")


def flag(name: str, value) -> bool:
    """True or False; ValueError with one sentence for what is neither, such as the word 'False'."""
    must(isinstance(value, int) or type(value).__name__ in FLAGS, name, value, "True or False")
    return bool(value)


def whole(value, least: int) -> bool:
    """Whether it is a whole number, NumPy's too, and no bool."""
    return isinstance(value, int | Integral) and not isinstance(value, bool) and value >= least


def python_int(value) -> int | None:
    """A whole number that may be NumPy's as Python's; None as it is."""
    return None if value is None else int(value)


def positive(value) -> bool:
    """Whether it is a finite number above 0."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return 0 < value <= LARGEST
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return 0 < getattr(value, "item", lambda: value)() <= LARGEST  # NumPy would round it to its own


def traced(*tensors) -> bool:
    """Whether PyTorch has to see one operator: it traces, a mode looks on, or a tensor is fake."""
    if torch.compiler.is_compiling() or _len_torch_dispatch_stack() or _is_tracing():
        return True
    for each in tensors:  # noqa: SIM110 (a generator would take longer than all else here)
        if type(each) not in PLAIN and isinstance(each, torch.Tensor):
            return True
    return False


def check_untransformed(*arguments) -> None:
    """NotImplementedError with one sentence for a tensor with a tangent, or one that torch.func wraps."""
    if forward_ad._current_level < 0 and not torch._C._are_functorch_transforms_active():
        return
    for each in arguments:
        if isinstance(each, torch.Tensor) and (
            is_functorch_wrapped_tensor(each) or forward_ad.unpack_dual(each).tangent is not None
        ):
            raise NotImplementedError(
                "this call is neither differentiated in forward mode nor transformed by torch.func, as"
                " kernels.attention is: it must be outside of them"
            )


def beside(tensor):
    """A context in which what is made beside a fake tensor is fake, whether its mode is on or not."""
    if type(tensor) in PLAIN or torch.compiler.is_compiling():
        return NOWHERE
    return getattr(tensor, "fake_mode", NOWHERE)


def at_hand(tensor: torch.Tensor) -> bool:
    """Whether its numbers can be looked at: they lie on the CPU, so that no GPU is waited for."""
    return tensor.device.type == "cpu" and not traced(tensor) and not is_functorch_wrapped_tensor(tensor)


def check_index(name: str, value, layout: str, device: torch.device, rows: int | None = None) -> None:
    """ValueError with one sentence for what is no tensor of whole numbers of a layout; rows: as many."""
    wanted = f"it must be int32 or int64 {layout} on q's device, {device}"
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"{name} is {shown(value)}, {wanted}")
    if value.dtype not in INDEX or value.dim() != layout.count(",") + 1 or value.device != device:
        raise ValueError(f"{name} is {said(value)}, {wanted}")
    if rows is not None and (len(value) != rows or not value.numel()):
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}, it must have one for each of {rows} sequences"
        )


def check_edges(name: str, edges: torch.Tensor, most: int | None = None) -> None:
    """ValueError with one sentence for numbers at hand that do not rise from 0, to at most so many tokens."""
    if at_hand(edges):
        rises = edges[0] == 0 and bool((edges[1:] >= edges[:-1]).all())
        if not rises or (most is not None and edges[-1] > most):
            to = "" if most is None else f" to at most {most}"
            raise ValueError(f"{name} is {shown(edges)}, it must rise from 0{to}")


def check_at_least_0(name: str, numbers: torch.Tensor) -> None:
    """ValueError with one sentence for a negative one of numbers at hand."""
    if at_hand(numbers) and (least := numbers.min()) < 0:
        raise ValueError(f"{name} holds {least}, every number must be at least 0")


def check_without_gradient(what: str, **tensors: torch.Tensor | None) -> None:
    """ValueError with one sentence where one of these, by name, asks for a gradient."""
    if torch.is_grad_enabled():
        for name, each in tensors.items():
            if each is not None and each.requires_grad:
                raise ValueError(f"{name} requires grad, {what} no gradients: call under torch.no_grad()")


def resolved(*tensors) -> list:
    """Tensors without PyTorch's lazy negation, of which a kernel knows nothing; what is none as it is."""
    if torch.compiler.is_compiling():  # the operator is asked again when the code runs
        return list(tensors)
    return [
        each.resolve_neg() if isinstance(each, torch.Tensor) and each.is_neg() else each for each in tensors
    ]


def as_autocast(*tensors):
    """The tensors as autocast casts them for PyTorch's own attention, which leaves float64 as it is."""
    return tuple(map(_lowered, tensors)) if _is_any_autocast_enabled() else tensors


def _lowered(tensor):
    if not isinstance(tensor, torch.Tensor) or tensor.dtype == torch.float64:
        return tensor
    kind = tensor.device.type
    lowered = torch.is_autocast_enabled(kind) and tensor.is_floating_point()
    return tensor.to(torch.get_autocast_dtype(kind)) if lowered else tensor


ALIGNMENT = 16  # bytes, of addresses: Triton compiles a kernel of its own for others
REMEMBERED = 4096  # entries of a memory of what the host worked out; one that is full begins anew


def remember(memory: dict, key, value) -> None:
    """Keep a value in a memory of bounded size."""
    if len(memory) >= REMEMBERED:
        memory.clear()
    memory[key] = value


def alike_of(tensors: tuple, given: dict) -> tuple | None:
    """By what calls are told apart that differ in more than addresses; None where PyTorch must see them."""
    transformed = forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()
    if transformed or traced() or _is_any_autocast_enabled():
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
