"""What a file's kernels do, operation by operation, as plain values that a judge can do again elsewhere.

A tape has no numbers of the matrices: it names memory, the operations of every program on it, and constants
of one element. `engine.watch.judge` runs it on numbers of its own. torch and Triton are imported when called.
"""

from collections.abc import Callable
from functools import WRAPPER_ASSIGNMENTS, update_wrapper
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from engine.experiment import Experiment
from engine.watch.memory import POISON, bits_of
from engine.watch.user_file import NotServedError, prepared, watched_by
from engine.watch.watch import line_of, tensors_of

MOST_OPERATIONS = 100_000  # of all programs together


def taken(file: Path, experiment: Experiment, stretch: float, function: str) -> dict[str, Any]:
    """The tape of a file's function, run once and watched, as what it does out of bounds is left out."""
    with prepared(file, experiment, function) as (own, notes):
        tape = Tape(own, str(file))
        watched_by(function)(tape, experiment, stretch, 0, str(file), notes)
    return {"memory": tape.memory, "launches": tape.launches, "returned": tape.returned, "notes": notes}


class Tape:
    """A file's function, and what it does while it is called for the first time."""

    def __init__(self, function: Callable, file: str):
        """file: whose lines are named."""
        update_wrapper(self, function, (*WRAPPER_ASSIGNMENTS, "__self__"), updated=())
        self.function, self.file = function, file
        self.memory: list[dict[str, Any]] = []  # how each storage begins, as kernels were given them
        self.launches: list[dict[str, Any]] = []  # name, tensors, grid, and each program's operations
        self.returned: list[list] = []  # what it returned, as it lies in its storages
        self.running = True  # the first call has not ended
        self._given: list[tuple] = []  # the tensors that it was given, and their copies
        self._storages: list[tuple[int, Any, bytes]] = []  # address, memory, what it held after a kernel
        self._numbers: dict[int, int] = {}  # of a handle in its program, by its identity
        self._held: list[Any] = []  # handles: while they live, no other has their identity
        self._operations: list[list] = []
        self._before: tuple[list, list] = [], []  # operations and handles from before the first program
        self._count = 0

    def __call__(self, *given, **named):
        first, self._given = self.running, [(each, each.clone()) for each in given if hasattr(each, "clone")]
        returned = self.function(*given, **named)
        if first:
            found = returned if isinstance(returned, tuple | list) else (returned,)
            views = [self._view(each) for each in found]
            if self.launches and (not views or views[0] is None):
                raise NotServedError("it must return a tensor that its kernels were given, and wrote")
            self.returned, self.running = [each for each in views if each is not None], False
        return returned

    def launched(self, kernel: str, arguments: dict[str, Any]) -> None:
        """A kernel starts; its tensors are taken in."""
        if any(bytes(memory) != held for _, memory, held in self._storages):
            raise NotServedError("it changes a tensor between its kernels: that must be done in a kernel")
        tensors = [[name, self._taken(tensor)] for name, tensor in tensors_of(arguments)]
        self.launches.append({"kernel": kernel, "tensors": tensors, "programs": {}})
        self._operations, self._held, self._numbers = [], [], {}

    def ended(self, grid: tuple[int, ...]) -> None:
        """A kernel has run on a grid; what its memory holds is remembered."""
        self.launches[-1]["grid"] = list(grid)
        self._storages = [(start, memory, bytes(memory)) for start, memory, _ in self._storages]

    def program(self, index: tuple[int, ...]) -> None:
        """A program begins with what was done before the first one."""
        programs = self.launches[-1]["programs"]
        if not programs:
            self._before = self._operations, self._held
        self._operations, self._held = map(list, self._before)
        self._numbers = {id(handle): place for place, handle in enumerate(self._held)}
        programs[",".join(map(str, index))] = self._operations

    def note(self, name: str, args: tuple, named: dict[str, Any], result: Any) -> None:
        """An operation was done; what it gave gets the next numbers."""
        if name == "create_atomic_cas":
            raise NotServedError("tl.atomic_cas is not judged")
        self._count += 1
        if self._count > MOST_OPERATIONS:
            raise NotServedError(f"it takes over {MOST_OPERATIONS:,} operations, and a judge does no more")
        said = self._plain(args), {key: self._plain(each) for key, each in named.items()}
        self._operations.append([name, *said, line_of(self.file)])
        for each in result if isinstance(result, tuple) else (result,):
            if each is not None:
                self._keep(getattr(each, "handle", each))

    def combined(self, kind: str, operation, given, found) -> None:
        """A reduction or a scan was done, by one of Triton's own functions."""
        from triton.language import standard

        name = getattr(operation.combine_fn, "__name__", "")
        if getattr(standard, name, None) is not operation.combine_fn:
            raise NotServedError(f"a reduction by {name or 'it'} is not judged: use tl.sum, tl.max or tl.min")
        handles = [each.handle for each in (given if isinstance(given, tuple) else (given,))]
        last = operation.keep_dims if kind == "reduce" else operation.reverse
        self.note(kind, (name, operation.axis, last, handles), {}, found)

    def _keep(self, handle) -> None:
        self._numbers[id(handle)] = len(self._held)
        self._held.append(handle)

    def _plain(self, value: Any) -> Any:
        """An operation's argument: {what it is: its parts}, a list, or a number, a word or None as it is."""
        value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, list | tuple):
            return [self._plain(each) for each in value]
        if id(value) in self._numbers:
            return {"held": [self._numbers[id(value)]]}
        if hasattr(value, "data") and hasattr(value, "get_element_ty"):
            return self._constant(value)
        if hasattr(value, "is_block"):
            return plain_type(value)
        if hasattr(type(value), "__members__"):
            return {"enum": [type(value).__name__, value.name]}
        raise NotServedError(f"{type(value).__name__} is not judged in a kernel")

    def _constant(self, handle) -> dict[str, list]:
        """A handle that no operation gave: an argument, a constant of one element, or another's tensor.T."""
        for place, each in enumerate(self._held if handle.data.size > 1 else ()):
            data = getattr(each, "data", None)
            lies = handle.data.__array_interface__
            if isinstance(data, np.ndarray) and data.T.__array_interface__ == lies:
                axes = list(range(data.ndim))[::-1]
                self._operations.append(["create_trans", [{"held": [place]}, axes], {}, line_of(self.file)])
                self._keep(handle)
                return self._plain(handle)
        if handle.data.size != 1:
            raise NotServedError("its kernel makes numbers in a way that is not judged: use tl's functions")
        value, kind = handle.data.item(), plain_type(handle.dtype)
        if not handle.dtype.is_ptr():
            return {"constant": [value, list(handle.data.shape), str(handle.data.dtype), kind]}
        for place, (start, memory, _) in enumerate(self._storages):
            if start <= value <= start + memory.nbytes:
                return {"pointer": [place, value - start, kind]}
        raise NotServedError("its kernel is given an address that belongs to none of its tensors")

    def _taken(self, tensor) -> list:
        """A tensor as it lies in a storage, which is taken in with how it begins."""
        import torch

        if self._view(tensor) is None:
            storage = tensor.untyped_storage()
            memory = torch.tensor([], dtype=torch.uint8).set_(storage).numpy()
            self.memory.append(self._begins(torch.tensor([], dtype=tensor.dtype).set_(storage)))
            self._storages.append((storage.data_ptr(), memory, bytes(memory)))
        return self._view(tensor)

    def _view(self, tensor) -> list | None:
        """A tensor as it lies in its storage; None for what is no tensor of a kernel's."""
        start = tensor.untyped_storage().data_ptr() if hasattr(tensor, "untyped_storage") else None
        for place in (place for place, each in enumerate(self._storages) if each[0] == start):
            lies = [list(tensor.shape), list(tensor.stride()), tensor.storage_offset()]
            return [place, str(tensor.dtype).removeprefix("torch."), *lies]
        return None

    def _begins(self, flat) -> dict[str, Any]:
        """What a storage holds at first: a given tensor or its copy, one number throughout, or nothing."""
        import torch

        made = {"dtype": str(flat.dtype).removeprefix("torch."), "size": flat.numel()}
        for place, (tensor, before) in enumerate(self._given):
            if tensor.untyped_storage().data_ptr() == flat.data_ptr():
                if not torch.equal(tensor, before):
                    raise NotServedError(
                        "it changes a tensor that it was given before its kernel runs, which is not judged"
                    )
                return {"given": place}
        if (size := flat.element_size()) in POISON and (bits_of(flat) == POISON[size]).all():
            return made
        if flat.numel() and bool((flat == flat[0]).all()):
            return made | {"filled": flat[0].item()}
        for place, (tensor, _) in enumerate(self._given):
            for order in permutations(range(tensor.dim())) if tensor.numel() == flat.numel() else ():
                if torch.equal(tensor.permute(order).reshape(-1).to(flat.dtype), flat):
                    return made | {"copy": place, "order": list(order)}
        raise NotServedError(
            "it gives its kernel a tensor of numbers that is neither one that it was given, nor its copy, "
            "nor new: what was done to it is not judged, and must be done in the kernel"
        )


def plain_type(kind) -> dict[str, list]:
    """One of Triton's types: its name, how many pointers it is behind, and the shape of a block."""
    shape, stars = list(map(int, kind.shape)) if kind.is_block() else [], 0
    kind = kind.scalar
    while kind.is_ptr():
        kind, stars = kind.element_ty, stars + 1
    return {"type": [kind.name, stars, shape]}
