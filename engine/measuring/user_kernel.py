"""A user's own kernel: the job behind its page, what it is asked there, and its launches on a GPU here.

It is watched, and compiled for a GPU, where it reaches nothing; what was compiled is launched here.
"""

import hashlib
import json
import tempfile
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engine.experiment import PARAMETERS, Experiment
from engine.measuring.bench import quick
from engine.measuring.machine import torch
from engine.problem.problem import Problem
from engine.watch import launches
from engine.watch.labs import FILE_VALUES, Lab, labs
from engine.watch.process import FailedError, Limits, run
from engine.worker.jobs import JobError, Update

WATCH = "engine.measuring.user_kernel:watch"
SECONDS = 60.0  # that a file may run
MOST_HEADS, MOST_SECONDS = 4, 4.0  # of the interpreter, watched
MOST_SOURCE = 200_000  # characters of a file that are shown


@dataclass(frozen=True)
class WatchedFile:
    """What is watched: a file as it was saved, on a scenario; held against a lab's rules if it is for one."""

    file: Path
    experiment: Experiment
    lab: Lab | None = None
    seconds: float = SECONDS

    @property
    def payload(self) -> dict[str, Any]:
        """For the worker: it changes with the file, so that what was saved is never shown as run."""
        return {
            "file": str(self.file),
            "saved": saved(self.file),
            "experiment": self.experiment.flat(),
            "lab": self.lab.number if self.lab else None,
            "seconds": self.seconds,
        }


def saved(file: Path) -> str:
    """What tells two states of a file apart; empty where it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


def watched_file(file: Path, experiment: Experiment, number: int | None) -> WatchedFile:
    """A user's file on a scenario, or a lab by number: the file of its name beside it, else the lab's own."""
    if number is None:
        return WatchedFile(file, interpretable(experiment))
    lab = labs()[number]
    own = file.parent / lab.file.name
    return WatchedFile(own if own.is_file() else lab.file, lab.experiment, lab)


def interpretable(experiment: Experiment) -> Experiment:
    """What a file is asked for, with fewer heads and tiles if need be."""
    problem = experiment.problem
    kv_heads = max(1, min(problem.kv_heads, MOST_HEADS // problem.group))
    group = min(problem.group, MOST_HEADS)
    few = {"batch": 1, "kv_heads": kv_heads, "heads": kv_heads * group, "inputs": problem.inputs}
    return quick(asked_for(experiment).changed(**few), MOST_SECONDS)


def asked_for(experiment: Experiment) -> Experiment:
    """The experiment without what a user's file is not asked for."""
    kept = (*FILE_VALUES, "hardware")
    return experiment.changed(**{name: one.default for name, one in PARAMETERS.items() if name not in kept})


def watch(payload: dict[str, Any]) -> Generator[Update, None, dict[str, Any]]:
    """The job: what was seen, with the file's lines; under "failed" a sentence where it could not be run."""
    file = Path(payload["file"])
    yield Update(0.2, f"Running {file.name} and watching it")
    found = {"source": [], **payload}
    with suppress(OSError):
        found["source"] = file.read_text("utf-8", errors="replace")[:MOST_SOURCE].splitlines()
    number, limits = payload["lab"], Limits(seconds=payload["seconds"])
    try:
        if number is None:
            found |= run(file, Experiment.of(**payload["experiment"]), limits)
        else:
            found |= labs()[number].check(file, limits)
    except FailedError as error:
        found["failed"] = str(error)
    _check_saved(file, payload)
    return found


def _check_saved(file: Path, payload: dict[str, Any]) -> None:
    if saved(file) != payload["saved"]:
        raise JobError(f"{file.name} was saved while it waited or ran, so nothing is shown; run it again")


_COMPILED: dict[str, dict[str, Any]] = {}  # the last, by what was asked


def prepared_on_gpu(payload: dict[str, Any]) -> Callable:
    """How a call of the file is prepared, as `sampled_row` has it; raises JobError."""
    file, asked = Path(payload["file"]), json.dumps(payload)
    if asked not in _COMPILED:
        experiment, limits = Experiment.of(**payload["calls"][0]), Limits(seconds=SECONDS)
        found = run(file, experiment, limits, function=launches.__name__)
        _COMPILED.clear()
        _COMPILED[asked] = found
    _check_saved(file, payload)
    return partial(_call, _COMPILED[asked])


def _call(found: dict[str, Any], q, k, v, problem: Problem) -> Callable:
    """What launches the kernels anew, its memory filled as the file fills it; returns O."""
    try:
        kernels = [_compiled(**kernel) for kernel in found["kernels"]]
        memory = [_storage((q, k, v), **each) for each in found["memory"]]
        steps = [
            (
                kernels[each["kernel"]][tuple(each["grid"])],
                [_value(memory, *one) for one in each["arguments"]],
            )
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
