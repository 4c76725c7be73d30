"""A user's file on this machine's GPU: its kernels, compiled where it reaches nothing, launched here."""

import json
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

from engine.experiment import Experiment
from engine.measuring.libraries import torch
from engine.measuring.user_kernel import SECONDS, saved
from engine.problem.problem import Problem
from engine.watch import launches
from engine.watch.process import FailedError, Limits, run
from engine.worker.jobs import JobError

_COMPILED: dict[str, dict[str, Any]] = {}  # the last, by what was asked


def prepared(payload: dict[str, Any]) -> Callable:
    """How a call of the file is prepared, as `sampled_row` has it; raises JobError."""
    file, asked = Path(payload["file"]), json.dumps(payload)
    if asked not in _COMPILED:
        experiment, limits = Experiment.of(**payload["calls"][0]), Limits(seconds=SECONDS)
        try:
            found = run(file, experiment, limits, function=launches.__name__)
        except FailedError as error:
            raise JobError(str(error)) from error
        _COMPILED.clear()
        _COMPILED[asked] = found
    if saved(file) != payload["saved"]:
        raise JobError(f"{file.name} was saved while it waited or ran, so nothing is shown; run it again")
    return partial(_call, _COMPILED[asked])


def _call(found: dict[str, Any], q, k, v, problem: Problem) -> Callable:
    """What launches the kernels anew, its memory filled as the file fills it; returns O."""
    try:
        kernels = [_compiled(**kernel) for kernel in found["kernels"]]
        memory = [_storage((q, k, v), **each) for each in found["memory"]]
        place = partial(_value, memory)
        steps = [
            (kernels[each["kernel"]][tuple(each["grid"])], list(starmap(place, each["arguments"])))
            for each in found["launches"]
        ]
        number, first = found["returned"]
        out = memory[number][0][first : first + q.nbytes].view(q.dtype).view(q.shape)
    except (IndexError, TypeError, ValueError) as error:
        raise JobError(f"what the file launches cannot be run: {error}") from error
    filled = [(bytes_.view(-1, len(fill)), fill) for bytes_, fill in memory if fill is not None]

    def call():
        for bytes_, fill in filled:
            bytes_.copy_(fill)
        for kernel, values in steps:
            kernel(*values)
        return out

    return call


def _compiled(code: str, num_warps: int, num_stages: int) -> Any:
    """A kernel from its code."""
    import triton

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.ttir")
        file.write_text(code)
        return triton.compile(str(file), options={"num_warps": num_warps, "num_stages": num_stages})


def _storage(inputs: tuple, bytes: int, given: int | None, fill: list[int] | None) -> tuple:
    """Bytes on the GPU, and what they are filled with before a call; of an input its own."""
    if given is not None:
        return inputs[given].view(-1).view(torch.uint8), None
    new = {"dtype": torch.uint8, "device": inputs[0].device}
    whole = torch.empty(-(-bytes // launches.PATTERN) * launches.PATTERN, **new)
    return whole, fill and torch.tensor(fill, **new)


def _value(memory: list[tuple], first: float, offset: int | None = None) -> float:
    """An argument: a number as it is, or an address."""
    return first if offset is None else memory[first][0].data_ptr() + offset
