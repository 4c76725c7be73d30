"""A tape done again, where its file never runs: what it does to memory, and what comes out.

Nothing that the tape says is trusted: it is data, of which only the interpreter's own operations are made, on
memory of this process and on numbers that the file has not seen. torch and Triton are imported when called.
"""

import re
import secrets
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from engine.experiment import Experiment
from engine.watch.user_file import REPORTS, NotServedError

ENUMS = {
    *("PADDING_OPTION", "CACHE_MODIFIER", "EVICTION_POLICY", "ROUNDING_MODE", "INPUT_PRECISION"),
    *("MEM_SEMANTIC", "MEM_SYNC_SCOPE", "ATOMIC_OP", "PROPAGATE_NAN"),
}
NUMBERS = {
    kind: np.dtype(kind)
    for kind in ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
} | {kind: np.dtype(kind) for kind in ("float16", "float32", "float64")}
LONGEST_FILE = 100_000  # lines
MOST_NOTES = 20


class Replayed:
    """A tape as a function of tensors, in the place of the file's own."""

    def __init__(self, tape: dict[str, Any], file: str, names: tuple[str, ...]):
        """names: of the tensors that the function is given first, as the tape has them."""
        from triton import language
        from triton.runtime import interpreter

        self.tape, self.file, self.names = tape, file, names
        self.language, self.interpreter = language, interpreter
        self.builder = interpreter.interpreter_builder
        self.storages: list = []
        self.held: list = []

    def function(self) -> Callable:
        """What is watched in the place of the file's function."""

        def replayed(*given):
            given = dict(zip(self.names, given, strict=False))
            self.storages = [self.begun(each, given) for each in self.tape["memory"]]
            for launch in self.tape["launches"]:
                self.launch(launch)
            return [self.view(each) for each in self.tape["returned"]]

        return replayed

    def begun(self, said: dict[str, Any], given: dict[str, Any]):
        """A storage's memory, flat, as it begins."""
        import torch

        if "given" in said:
            return given[said["given"]]
        flat = torch.empty(said["size"], dtype=getattr(torch, said["dtype"]))
        if "copy" in said:
            return flat.copy_(given[said["copy"]].permute(said["order"]).reshape(-1))
        return flat.fill_(said["filled"]) if "filled" in said else flat

    def view(self, said: list):
        """A tensor as it lies in a storage; PyTorch refuses what lies outside."""
        import torch

        place, dtype, shape, strides, offset = said
        flat = self.storages[place]
        whole = flat.as_strided([flat.untyped_storage().nbytes() // flat.element_size()], [1], 0)
        return whole.view(getattr(torch, dtype)).as_strided(shape, strides, offset)

    def launch(self, said: dict[str, Any]) -> None:
        """Every program of a kernel, in the interpreter's order."""
        self.held = []
        tensors = Named(*(self.view(each) for _, each in said["tensors"]))
        tensors._fields = tuple(_word(name) for name, _ in said["tensors"])
        self.operations(said["before"])
        shared = list(self.held)

        def run() -> None:
            self.held = list(shared)
            self.operations(said["programs"][",".join(map(str, self.builder.grid_idx))])

        kernel = FunctionType(_kernel.__code__, {"tl": self.language, "run": run}, _word(said["kernel"]))
        self.interpreter.GridExecutor(kernel, ["tensors"], tuple(said["grid"]))(tensors)

    def operations(self, said: list) -> None:
        """Do operations one after another; what each gives is held under the next numbers."""
        for name, given, named, line in said:
            do = self.combined if name in ("reduce", "scan") else self.built
            values = [self.value(each) for each in given]
            more = {key: self.value(each) for key, each in named.items()}
            result = in_line(self.file, line)(do, name, values, more)
            results = result if isinstance(result, tuple) else (result,)
            self.held += [getattr(each, "handle", each) for each in results if each is not None]

    def built(self, name: str, given: list, named: dict[str, Any]):
        """An operation of the interpreter's builder."""
        if not name.startswith("create_") or name == "create_atomic_cas":
            raise NotServedError(f"it has {name[:40]!r}, which is not judged")
        return getattr(self.builder, name)(*given, **named)

    def combined(self, kind: str, given: list, named: dict[str, Any]):
        """A reduction or a scan by one of Triton's own functions."""
        name, axis, last, handles = given
        if not re.fullmatch(r"_\w*combine\w*|_elementwise_m\w\w", name):
            raise NotServedError(f"it reduces by {name[:40]!r}, which is not a function for that")
        tl, of = self.language, {"reduce": self.interpreter.ReduceOps, "scan": self.interpreter.ScanOps}[kind]
        tensors = tuple(
            tl.tensor(each, tl.block_type(each.dtype.scalar, list(each.data.shape))) for each in handles
        )
        return of(axis, getattr(tl.standard, name), last).apply(tensors if len(tensors) > 1 else tensors[0])

    def value(self, said: Any) -> Any:
        """An operation's argument."""
        if not isinstance(said, list):
            return said
        what, *parts = said
        if what == "list":
            return [self.value(each) for each in parts]
        if what == "held":
            return self.held[parts[0]]
        if what == "type":
            return self.type(parts)
        if what == "enum" and parts[0] in ENUMS:
            return getattr(self.interpreter._ir, parts[0]).__members__[parts[1]]
        if what == "constant":
            value, shape, dtype, kind = parts
            held = np.full(self.value(shape), value, NUMBERS[dtype])
            return self.interpreter.TensorHandle(held, self.value(kind))
        if what == "pointer":
            place, offset, kind = parts
            address = self.storages[place].untyped_storage().data_ptr() + offset
            return self.interpreter.TensorHandle(np.array([address], np.uint64), self.value(kind))
        raise NotServedError(f"it has {str(what)[:40]!r}, which is nothing of a kernel")

    def type(self, said: list):
        """One of Triton's types."""
        of, shape = said
        if isinstance(of, str):
            return self.language.dtype(of)
        of = self.type(of[1:])
        return (
            self.language.pointer_type(of)
            if shape is None
            else self.language.block_type(of, self.value(shape))
        )


class Named(tuple):
    """A kernel's tensors, with their names in `_fields`."""

    _fields: tuple[str, ...] = ()

    def __new__(cls, *each):
        """Of what it has, one by one, as a named tuple."""
        return super().__new__(cls, each)


def _kernel(tensors):
    """What stands under `run` in the globals that this code is given."""
    return globals()["run"]()


def _word(name: Any) -> str:
    return re.sub(r"\W", "_", str(name))[:40]


@cache
def in_line(file: str, line: int | None) -> Callable:
    """Calls what it is given from a line of a file, which is what the watch names of what it sees."""
    if not isinstance(line, int) or not 0 < line < LONGEST_FILE:
        return lambda do, *given: do(*given)
    space: dict[str, Any] = {}
    exec(compile("\n" * (line - 1) + "def at(do, *given): return do(*given)", file, "exec"), space)
    return space["at"]


def judged(asked: dict[str, Any]) -> dict[str, Any]:
    """What is seen of a tape on the numbers that it was taken on, and whether it is right on others, too."""
    experiment, module = Experiment.of(**asked["experiment"]), import_module(REPORTS[asked["function"]])
    try:
        function = Replayed(asked["tape"], asked["file"], module.GIVEN).function()
        notes = [str(note)[:300] for note in asked["tape"]["notes"]][:MOST_NOTES]
        found, other = (
            module.watched(function, experiment, asked["stretch"], seed, asked["file"], notes)
            for seed in (0, 1 + secrets.randbelow(2**31))
        )
    except NotServedError:
        raise
    except Exception as error:  # of what no kernel does
        raise NotServedError(f"what it did cannot be done again: {type(error).__name__}") from None
    return {**found, "right_on_others": other["right"]}
