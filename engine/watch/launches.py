"""What a file launches, for another process to run: its kernels in Triton's intermediate code, and arguments.

The file runs where a watched one does, and reaches as little, on the scenario in full: its kernels are
compiled there and not interpreted, and none of them runs. torch and Triton are imported when called.
"""

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from engine.experiment import Experiment
from engine.watch.memory import POISON, poisoned
from engine.watch.user_file import NotServedError, arguments, ending_in_sentences, prepared

PATTERN = 16  # bytes, repeated, that what a file fills may hold
MOST_LAUNCHES = 64
SHAPE = {  # of a report; an argument is [a number], or [a tensor's storage, its first byte there]
    "kernels": [{"code": str, "num_warps": int, "num_stages": int}],
    "launches": [{"kernel": int, "grid": [int], "arguments": [[float]]}],
    "memory": [{"bytes": int, "given": (int, None), "fill": ([int], None)}],
    "returned": [float],
    "notes": [str],
}


def report(file: Path, experiment: Experiment, stretch: float) -> dict[str, Any]:
    """What a call of the file's attention launches; raises NotServedError."""
    import torch
    import triton
    from triton.runtime.jit import JITFunction

    problem, run = experiment.problem, JITFunction.run
    shapes = (problem.heads, problem.seq_q), *((problem.kv_heads, problem.seq_kv),) * 2
    dtype = getattr(torch, problem.dtype)
    tensors = [torch.empty(problem.batch, *shape, problem.head_dim, dtype=dtype) for shape in shapes]
    found = Launches(tensors)

    def launched(self, *given, grid, warmup=False, **named):
        kernel = run(self, *given, grid=grid, warmup=True, **named)
        own = {name: value for name, value in named.items() if name in self.signature.parameters}
        bound = self.signature.bind(*given, **own)
        bound.apply_defaults()
        found.add(kernel, grid(bound.arguments) if callable(grid) else grid, bound.arguments)

    with (
        prepared(file, experiment, "attention") as (attention, notes),
        poisoned(torch),
        patch.object(JITFunction, "run", launched),
        patch.object(triton.compiler, "compile", found.compile),
    ):
        positional, named = arguments(attention, tensors, problem, experiment.asked)
        with ending_in_sentences(str(file)):
            returned = attention(*positional, **named)
        out = returned[0] if isinstance(returned, tuple | list) else returned
        if not isinstance(out, torch.Tensor) or out.shape != tensors[0].shape or not out.is_contiguous():
            raise NotServedError("attention must return O of the shape of q, contiguous")
        found.returned = found.plain(out)
    if not 0 < len(found.launches) <= MOST_LAUNCHES:
        raise NotServedError(f"it launches {len(found.launches)} kernels; it must be 1 to {MOST_LAUNCHES}")
    own = {key: getattr(found, key) for key in ("kernels", "launches", "memory", "returned")}
    return own | {"notes": notes}


class Launches:
    """What was launched so far."""

    def __init__(self, given: list):
        self.kernels: list[dict[str, Any]] = []  # their code, each with its number of warps and stages
        self.launches: list[dict[str, Any]] = []  # each one's kernel by number, grid of three, and arguments
        self.memory: list[dict[str, Any]] = []  # of each storage its bytes, which input it is, or its fill
        self.returned: list = []  # where O lies
        self._given = [tensor.data_ptr() for tensor in given]
        self._storages: dict[int, tuple[int, Any]] = {}  # by address: the number, and what keeps it there

    def compile(self, src, target, options, **_):
        """As Triton's own, up to the code that is the same on every GPU."""
        from triton.backends.compiler import Language
        from triton.compiler.compiler import ir, make_backend

        backend, context, stages = make_backend(target), ir.context(), {}
        settings = backend.parse_options(dict(options))
        ir.load_dialects(context)
        backend.load_dialects(context)
        made = backend.get_codegen_implementation(settings), backend.get_module_map()
        module = src.make_ir(target, settings, *made, context)
        backend.add_stages(stages, settings, Language.TRITON)
        module = stages["ttir"](module, dict(vars(settings)))
        kept = {name: getattr(settings, name) for name in ("num_warps", "num_stages")}
        self.kernels.append({"code": str(module), **kept})
        return SimpleNamespace(number=len(self.kernels) - 1, signature=src.signature)

    def add(self, kernel, grid, given: dict[str, Any]) -> None:
        """A kernel is launched."""
        values = [self.plain(given[name]) for name, kind in kernel.signature.items() if kind != "constexpr"]
        grid = [int(each) for each in (*grid, 1, 1)][:3]
        self.launches.append({"kernel": kernel.number, "grid": grid, "arguments": values})

    def plain(self, value: Any) -> list:
        """An argument: a number, or where a tensor begins."""
        if isinstance(value, bool | int | float):
            return [value + 0]
        if not hasattr(value, "untyped_storage"):
            raise NotServedError(f"its kernels take a {type(value).__name__}: no GPU is given that here")
        storage = value.untyped_storage()
        if storage.data_ptr() not in self._storages:
            self._storages[storage.data_ptr()] = len(self.memory), value
            self.memory.append(self._held(storage))
        number, _ = self._storages[storage.data_ptr()]
        return [number, value.data_ptr() - storage.data_ptr()]

    def _held(self, storage) -> dict[str, Any]:
        """A storage's size, and what it holds before its first kernel: unwritten where that is no matter."""
        start, size = storage.data_ptr(), storage.nbytes()
        if start in self._given:
            return {"bytes": size, "given": self._given.index(start), "fill": None}
        held = np.frombuffer((ctypes.c_uint8 * size).from_address(start), np.uint8)
        if (held != np.resize(held[:PATTERN], size)).any():
            raise NotServedError("it fills a tensor in Python: on a GPU here only its kernels compute")
        poison = [np.resize(np.array([each]).view(np.uint8), PATTERN).tolist() for each in POISON.values()]
        fill = held[:PATTERN].tolist()
        return {"bytes": size, "given": None, "fill": None if fill in poison else fill}
