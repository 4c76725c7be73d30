"""A file's attention run in a process of its own, with limits on its time and its memory.

The process is asked by arguments and answers on a pipe of its own: what the file prints goes nowhere.
Whatever it does, what comes back is a report or one sentence.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from select import select
from typing import Any

from engine.experiment import Experiment
from engine.process_tree import Marked
from engine.root import ROOT

REPORTS = {
    "attention": "engine.watch.attention",
    "delta": "engine.watch.delta",
}  # by the file's function
PARENT_DIED = 1  # of prctl: the signal that a process gets when its parent ends
STARTING_SECONDS = 120.0  # that importing torch and Triton may take beside the limit, on a busy machine
ENDING_SECONDS = 0.2  # from the end of its pipe to the end of a process


@dataclass(frozen=True)
class Limits:
    """What a file may use: seconds from when it is imported, bytes beyond torch's own."""

    seconds: float = 120.0
    memory: int = 4 * 2**30


class FailedError(Exception):
    """A file that was not served; the message is one sentence that names it."""


def run(
    file: Path, experiment: Experiment, limits: Limits, stretch: float = 1.0, function: str = "attention"
) -> dict[str, Any]:
    """What `report` of the module for the function says of the file; raises FailedError.

    function: of REPORTS, or a module with a `report(file, experiment, stretch)` of its own.
    """
    if not file.is_file():
        raise FailedError(f"{file} is not a file that can be read")
    if file.suffix != ".py":
        raise FailedError(f"{file} is not a Python file: its name must end in .py")
    if find_spec("triton") is None:
        raise FailedError(f"{file.name} cannot be run, because Triton is not installed here")
    asked = {
        "file": str(file.resolve()),
        "experiment": experiment.flat(),
        "stretch": stretch,
        "function": function,
        "memory": limits.memory,
        "parent": os.getpid(),
    }
    said = supervised([sys.executable, "-m", __name__, json.dumps(asked)], limits)
    if "report" in said:
        return said["report"]
    raise FailedError(f"{file.name}: {said['sentence'].removesuffix('.')}.")


def supervised(command: list[str], limits: Limits) -> dict[str, Any]:
    """What a command answers, or under "sentence" how it ended instead; it and what it started are gone then.

    Its last argument is the descriptor on which it answers: a line when it has started, then one of JSON.
    """
    reading, writing = os.pipe()
    process = Marked(
        [*command, str(writing)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        pass_fds=(writing,),
    )
    os.close(writing)
    try:
        said = _answer(reading, limits.seconds)
        ended = {} if said else {"sentence": _ending(process, limits.seconds)}
    finally:
        os.close(reading)
        process.end()
        process.wait()
    return said or ended


def _answer(reading: int, seconds: float) -> dict[str, Any]:
    """What a process answers in so many seconds from when it has started; empty where there is nothing."""
    said, until = b"", time.monotonic() + STARTING_SECONDS
    while said.count(b"\n") < 2:
        if not select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
            return {}
        if not (part := os.read(reading, 2**16)):
            break
        until = until if said else time.monotonic() + seconds
        said += part
    with suppress(IndexError, ValueError):
        return json.loads(said.split(b"\n")[1])
    return {}


def _ending(process: Marked, seconds: float) -> str:
    """How a process ended that did not answer, as a sentence."""
    try:
        code = process.wait(ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        return f"it still runs after {seconds:g} s, and was ended: its loop may be endless"
    if code < 0:
        return f"it ended Python by signal {signal.Signals(-code).name}: its memory, or a crash"
    return f"it ended Python with exit code {code}"


def main() -> None:
    """The process itself: run one file, answer, and leave without what the file may have left running."""
    asked, pipe = json.loads(sys.argv[1]), os.fdopen(int(sys.argv[2]), "w")
    from engine.watch.stand_in import answer_for_gpu
    from engine.watch.user_file import NotServedError

    end_with_parent(asked["parent"])
    _started(asked["memory"])
    answer_for_gpu()
    report = import_module(REPORTS.get(asked["function"], asked["function"])).report
    pipe.write("started\n")
    pipe.flush()
    experiment = Experiment.of(**asked["experiment"])
    try:
        said = {"report": report(Path(asked["file"]), experiment, asked["stretch"])}
    except NotServedError as error:
        said = {"sentence": str(error)}
    except MemoryError:
        said = {"sentence": "it needs more memory than it may use"}
    pipe.write(json.dumps(said) + "\n")
    pipe.close()
    os._exit(0)


def end_with_parent(parent: int) -> None:
    """Let this process end when whoever asked is gone, since nobody waits for its answer then."""
    import ctypes

    ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGKILL)
    if os.getppid() != parent:  # gone before that
        os.kill(os.getpid(), signal.SIGKILL)


def _started(memory: int) -> None:
    """Import what is large, then limit what comes on top."""
    import resource

    import torch
    import triton  # noqa: F401

    torch.set_num_threads(1)
    status = Path("/proc/self/status").read_text()
    held = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (held + memory, held + memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
