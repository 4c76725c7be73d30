"""What a file's kernels do, operation by operation, as plain values that a judge can do again elsewhere.

A tape has no numbers of the matrices: it names memory, the operations of every program on it, and constants
of one element. `engine.watch.judge` runs it on numbers of its own. torch and Triton are imported when called.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from engine.experiment import Experiment
from engine.watch.interpreter import bit_type, replaced
from engine.watch.memory import POISON, bits_of, poisoned, unquestioned
from engine.watch.user_file import REPORTS, NotServedError, called, prepared
from engine.watch.watch import tensors_of

MOST_OPERATIONS = 100_000  # of all programs together
# what gives nothing and moves nothing
SILENT = {f"create_{name}" for name in ("print", "assert", "assume", "barrier")}
MASKED = {  # where an access has its pointers and its mask
    "create_masked_load": (0, 1), "create_masked_store": (0, 2), "create_atomic_rmw": (1, 3),
}  # fmt: skip


class Tape:
    """A run's memory and launches, while they are taken down.

    Attributes:
        unwritten: storages that were allocated without being written.
        memory: how each storage begins, in the order in which kernels were given them.
        launches: each kernel's name, its tensors, its grid, and the operations of each of its programs.
    """

    def __init__(self, given: dict[str, Any], file: str):
        """given: the function's own tensors by name; file: whose lines are named."""
        self.given, self.file = given, file
        self.unwritten: set[int] = set()
        self.memory: list[dict[str, Any]] = []
        self.launches: list[dict[str, Any]] = []
        self._as_given = {name: tensor.clone() for name, tensor in given.items()}
        self._places: dict[int, int] = {}  # of a storage in `memory`, by its address
        self._left: list[tuple[Any, bytes]] = []  # each storage, and what it held when the last kernel ended
        self._numbers: dict[int, int] = {}  # of a handle in its program, by its identity
        self._held: list[Any] = []  # handles: while they live, no other has their identity
        self._operations: list[list] = []
        self._before = self._count = self._depth = 0

    def plain(self, returned: Any) -> dict[str, Any]:
        """All of it, with what the function returned."""
        if not self.launches:
            raise NotServedError("it launches no Triton kernel")
        found = returned if isinstance(returned, tuple | list) else (returned,)
        views = [self._view(each) for each in found]
        if not views or views[0] is None:
            raise NotServedError("it must return a tensor that its kernels were given, and wrote")
        told = [each for each in views if each is not None]
        return {"memory": self.memory, "launches": self.launches, "returned": told}

    def launched(self, call, executor, *args, **kwargs):
        """A launch: its tensors are taken in before, and what they hold is remembered after."""
        named = {**dict(zip(executor.arg_names, args, strict=False)), **kwargs}
        self._untouched()
        tensors = [[name, self._taken(tensor)] for name, tensor in tensors_of(named)]
        self._operations, self._numbers, self._held, self._before = [], {}, [], 0
        programs: dict[str, list] = {}
        launch = {"kernel": executor.fn.__name__, "tensors": tensors, "programs": programs}
        self.launches.append({**launch, "before": self._operations})
        call(executor, *args, **kwargs)
        from triton.runtime import interpreter

        self.launches[-1]["grid"] = list(interpreter.interpreter_builder.grid_dim)
        self._left = [(storage, bytes(storage)) for storage, _ in self._left]

    def program(self, original, *index):
        """A program begins: what was made before the first one is there for each."""
        programs = self.launches[-1]["programs"]
        if not programs:
            self._before = len(self._held)
        self._held = self._held[: self._before]
        self._numbers = {id(handle): place for place, handle in enumerate(self._held)}
        self._operations = programs.setdefault(",".join(map(str, index)), [])
        return original(*index)

    def operation(self, name: str, original: Callable) -> Callable:
        """What is called instead of an operation: it is noted, unless it is part of another."""

        def do(*args, **named):
            return original(*(self._inside(args, *MASKED[name]) if name in MASKED else args), **named)

        def noted(*args, **named):
            if self._depth or name in SILENT:
                return do(*args, **named)
            if name == "create_atomic_cas":
                raise NotServedError("tl.atomic_cas is not judged")
            said = [self._plain(each) for each in args]
            more = {key: self._plain(each) for key, each in named.items()}
            return self._noted([name, said, more], do, *args, **named)

        return noted

    def _inside(self, args: tuple, at: int, place: int) -> list:
        """An access's arguments, its mask without what lies outside of all tensors, as the judge's is."""
        pointers, mask = args[at], args[place]
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        inside = np.zeros(pointers.data.shape, bool)
        for storage, _ in self._left:
            start = storage.__array_interface__["data"][0]
            inside |= (pointers.data >= start) & (pointers.data + np.uint64(size) <= start + storage.nbytes)
        meant = mask if isinstance(mask, np.ndarray) else mask.data
        allowed = type(pointers)(inside & meant, bit_type())
        return [*args[:place], allowed, *args[place + 1 :]]

    def combined(self, kind: str, apply, operation, given):
        """A reduction or a scan, which the interpreter does without its builder."""
        from triton import language

        if self._depth:
            return apply(operation, given)
        name = getattr(operation.combine_fn, "__name__", "")
        if getattr(language.standard, name, None) is not operation.combine_fn:
            raise NotServedError(f"a reduction by {name or 'it'} is not judged: use tl.sum, tl.max or tl.min")
        tensors = given if isinstance(given, tuple) else (given,)
        last = operation.keep_dims if kind == "reduce" else operation.reverse
        handles = [each.handle for each in tensors]
        said = [self._plain(value) for value in (name, operation.axis, last, handles)]
        return self._noted([kind, said, {}], apply, operation, given)

    def _noted(self, said: list, do, *args, **named):
        """Do an operation, and note it with its line; what it gives gets the next numbers."""
        self._count += 1
        if self._count > MOST_OPERATIONS:
            raise NotServedError(f"it takes over {MOST_OPERATIONS:,} operations, and a judge does no more")
        self._operations.append([*said, self._line()])
        self._depth += 1
        try:
            result = do(*args, **named)
        finally:
            self._depth -= 1
        for each in result if isinstance(result, tuple) else (result,):
            if each is not None:
                self._keep(getattr(each, "handle", each))
        return result

    def _keep(self, handle) -> None:
        self._numbers[id(handle)] = len(self._held)
        self._held.append(handle)

    def _plain(self, value: Any) -> Any:
        """An operation's argument: [what it is, ...], or a number, a word or None as it is."""
        value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, list | tuple):
            return ["list", *map(self._plain, value)]
        if id(value) in self._numbers:
            return ["held", self._numbers[id(value)]]
        if hasattr(value, "data") and hasattr(value, "get_element_ty"):
            return self._constant(value)
        if hasattr(value, "primitive_bitwidth") or hasattr(value, "element_ty"):
            return plain_type(value)
        if hasattr(type(value), "__members__"):
            return ["enum", type(value).__name__, value.name]
        raise NotServedError(f"{type(value).__name__} is not judged in a kernel")

    def _constant(self, handle) -> list:
        """A handle that no operation gave: an argument, a constant of one element, or another's tensor.T."""
        for place, each in enumerate(self._held if handle.data.size > 1 else ()):
            data = getattr(each, "data", None)
            if isinstance(data, np.ndarray) and _lies(data.T) == _lies(handle.data):
                axes = ["list", *range(data.ndim)[::-1]]
                self._operations.append(["create_trans", [["held", place], axes], {}, self._line()])
                self._keep(handle)
                return self._plain(handle)
        if handle.data.size != 1:
            raise NotServedError("its kernel makes numbers in a way that is not judged: use tl's functions")
        value = handle.data.item()
        if hasattr(handle.dtype, "element_ty"):
            return ["pointer", *self._address(value), plain_type(handle.dtype)]
        shape = ["list", *handle.data.shape]
        return ["constant", value, shape, str(handle.data.dtype), plain_type(handle.dtype)]

    def _address(self, address: int) -> tuple[int, int]:
        """The storage that an address lies in, and how far from its start."""
        for storage, _ in self._left:
            start = storage.__array_interface__["data"][0]
            if start <= address <= start + storage.nbytes:
                return self._places[start], address - start
        raise NotServedError("its kernel is given an address that belongs to none of its tensors")

    def _untouched(self) -> None:
        """Between kernels nothing may change what they have: no judge would see it."""
        for storage, held in self._left:
            if bytes(storage) != held:
                raise NotServedError("it changes a tensor between its kernels: that must be done in a kernel")

    def _taken(self, tensor) -> list:
        """A tensor as it lies in a storage, which is taken in with how it begins."""
        import torch

        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        if start not in self._places:
            whole = torch.tensor([], dtype=tensor.dtype).set_(storage)
            self._places[start] = len(self.memory)
            self.memory.append(self._begins(whole, start))
            flat = torch.tensor([], dtype=torch.uint8).set_(storage).numpy()
            self._left.append((flat, bytes(flat)))
        return self._view(tensor)

    def _view(self, tensor) -> list | None:
        """A tensor as it lies in a storage; None for what is no tensor of a kernel's."""
        start = tensor.untyped_storage().data_ptr() if hasattr(tensor, "untyped_storage") else None
        if start not in self._places:
            return None
        shape = [list(tensor.shape), list(tensor.stride()), tensor.storage_offset()]
        return [self._places[start], str(tensor.dtype).removeprefix("torch."), *shape]

    def _begins(self, flat, start: int) -> dict[str, Any]:
        """What a storage holds at first: a given tensor or its copy, one number throughout, or nothing."""
        import torch

        made = {"dtype": str(flat.dtype).removeprefix("torch."), "size": flat.numel()}
        for name, tensor in self.given.items():
            if tensor.untyped_storage().data_ptr() == start:
                if not torch.equal(tensor, self._as_given[name]):
                    raise NotServedError(f"it changes {name} before its kernel runs, which is not judged")
                return {"given": name}
        size = flat.element_size()
        if start in self.unwritten and size in POISON and (bits_of(flat) == POISON[size]).all():
            return made
        if flat.numel() and bool((flat == flat[0]).all()):
            return made | {"filled": flat[0].item()}
        for name, tensor in self.given.items():
            for order in permutations(range(tensor.dim())) if tensor.numel() == flat.numel() else ():
                if torch.equal(tensor.permute(order).reshape(-1).to(flat.dtype), flat):
                    return made | {"copy": name, "order": list(order)}
        raise NotServedError(
            "it gives its kernel a tensor of numbers that is neither one that it was given, nor its copy, "
            "nor new: what was done to it is not judged, and must be done in the kernel"
        )

    def _line(self) -> int | None:
        """The line of the file that is at work."""
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        return frame.f_lineno if frame else None


def taken(asked: dict[str, Any]) -> dict[str, Any]:
    """The tape of a file's function, run once."""
    import torch

    module, file = import_module(REPORTS[asked["function"]]), asked["file"]
    experiment = Experiment.of(**asked["experiment"])
    with prepared() as notes:
        function = module.served(Path(file), experiment)
        given, call = module.given_to(function, experiment, asked["stretch"])
        tape = Tape(given, file)
        with (
            poisoned(torch, tape.unwritten),
            replaced(tape.operation, tape.launched, tape.program, tape.combined),
            unquestioned(),
        ):
            returned = called(function, call, file)
    return tape.plain(returned) | {"notes": notes}


def _lies(array: np.ndarray) -> tuple:
    return array.__array_interface__["data"], array.shape, array.strides


def plain_type(kind) -> list:
    """One of Triton's types: its name, that of what a pointer points to, or of a block with its shape."""
    shape = ["list", *map(int, kind.shape)] if hasattr(kind, "shape") and kind.is_block() else None
    of = getattr(kind, "element_ty", None)
    return ["type", kind.name if of is None else plain_type(of), shape]
