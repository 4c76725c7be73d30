"""A tape done again, where its file never runs: what it does to memory, and what comes out.

Nothing that the tape says is trusted: it is data, of which only the interpreter's own operations are made, on
memory of this process and on numbers that the file has not seen. torch and Triton are imported when called.
"""

import re
import secrets
from collections import namedtuple
from pathlib import Path
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np

from engine.experiment import Experiment
from engine.watch.user_file import NotServedError, watched_by
from engine.watch.watch import Watch

NUMBERS = "biuf"  # NumPy's kinds
LONGEST_FILE, LONGEST_NAME, LONGEST_NOTE, MOST_NOTES = 100_000, 40, 300, 20


class Replayed:
    """A tape as a function of tensors, in the place of the file's own."""

    def __init__(self, tape: dict[str, Any]):
        from triton import language
        from triton.runtime import interpreter

        self.memory, self.launches, self.returned = tape["memory"], tape["launches"], tape["returned"]
        self.language, self.interpreter = language, interpreter
        self.builder = interpreter.interpreter_builder
        self.line: int | None = None  # of the file, where the operation was that is at work
        self.storages: list = []
        self.held: list = []

    def __call__(self, *given):
        self.storages = [self.begun(each, given) for each in self.memory]
        for launch in self.launches:
            self.launch(launch)
        return [self.view(each) for each in self.returned]

    def begun(self, said: dict[str, Any], given: tuple):
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

        def program(tensors) -> None:
            self.held = []
            self.operations(said["programs"][",".join(map(str, self.builder.grid_idx))])

        names, views = zip(*said["tensors"], strict=True)
        tensors = namedtuple("Tensors", names, rename=True)(*map(self.view, views))
        parts = {"tl": self.language}, str(said["kernel"])[:LONGEST_NAME], None, program.__closure__
        kernel = FunctionType(program.__code__, *parts)  # Triton looks for tl in its globals
        self.interpreter.GridExecutor(kernel, ["tensors"], tuple(said["grid"]))(tensors)

    def operations(self, said: list) -> None:
        """Do operations one after another; what each gives is held under the next numbers."""
        for name, given, named, line in said:
            self.line = line if type(line) is int and 0 < line < LONGEST_FILE else None
            do = self.combined if name in ("reduce", "scan") else self.built
            result = do(name, self.value(given), {key: self.value(each) for key, each in named.items()})
            results = result if isinstance(result, tuple) else (result,)
            self.held += [getattr(each, "handle", each) for each in results if each is not None]

    def built(self, name: str, given: list, named: dict[str, Any]):
        """An operation of the interpreter's builder."""
        if not name.startswith("create_") or name == "create_atomic_cas":
            raise NotServedError(f"it has {name[:LONGEST_NAME]!r}, which is not judged")
        return getattr(self.builder, name)(*given, **named)

    def combined(self, kind: str, given: list, named: dict[str, Any]):
        """A reduction or a scan by one of Triton's own functions."""
        name, axis, last, handles = given
        if not re.fullmatch(r"_\w*combine\w*|_elementwise_m\w\w", name):
            raise NotServedError(f"it reduces by {name[:LONGEST_NAME]!r}, which is not a function for that")
        tl, of = self.language, {"reduce": self.interpreter.ReduceOps, "scan": self.interpreter.ScanOps}[kind]
        tensors = tuple(
            tl.tensor(each, tl.block_type(each.dtype.scalar, list(each.data.shape))) for each in handles
        )
        return of(axis, getattr(tl.standard, name), last).apply(tensors if len(tensors) > 1 else tensors[0])

    def value(self, said: Any) -> Any:
        """An operation's argument."""
        if isinstance(said, list):
            return [self.value(each) for each in said]
        if not isinstance(said, dict):
            return said
        ((what, parts),) = said.items()
        makes = {
            "held": self.held.__getitem__, "enum": self.enum, "type": self.type, "constant": self.constant,
            "pointer": self.pointer,
        }  # fmt: skip
        return makes[what](*map(self.value, parts))

    def enum(self, kind: str, name: str):
        """A choice among several, such as how to round."""
        return getattr(self.interpreter._ir, kind).__members__[name]

    def type(self, name: str, stars: int, shape: list[int]):
        """One of Triton's types."""
        made = self.language.dtype(name)
        for _ in range(stars):
            made = self.language.pointer_type(made)
        return self.language.block_type(made, shape) if shape else made

    def constant(self, value: float, shape: list[int], dtype: str, kind):
        """One number."""
        if np.dtype(dtype).kind not in NUMBERS:
            raise NotServedError("it has a constant that is not a number")
        return self.interpreter.TensorHandle(np.full(shape, value, dtype), kind)

    def pointer(self, place: int, offset: int, kind):
        """An address in memory of this process."""
        address = self.storages[place].untyped_storage().data_ptr() + offset
        return self.interpreter.TensorHandle(np.array([address], np.uint64), kind)


def judged(
    tape: dict[str, Any], file: Path, experiment: Experiment, stretch: float, function: str
) -> dict[str, Any]:
    """What is seen of a tape on the numbers that it was taken on, and whether it is right on others, too."""
    try:
        notes = [str(note)[:LONGEST_NOTE] for note in tape["notes"]][:MOST_NOTES]
        replayed, watched = Replayed(tape), watched_by(function)
        with patch.object(Watch, "line", property(lambda _: replayed.line)):
            found, other = (
                watched(replayed, experiment, stretch, seed, str(file), notes)
                for seed in (0, 1 + secrets.randbelow(2**31))
            )
    except NotServedError:
        raise
    except Exception as error:  # of what no kernel does
        raise NotServedError(f"what it did cannot be done again: {type(error).__name__}") from None
    return {**found, "right_on_others": other["right"]}
