"""A file run in a process of its own, with limits on time, memory and reach; and how it is judged.

A process answers on a pipe of its own: what the file prints goes nowhere. Whatever it does, what comes back
is a report or one sentence. A report that others are to trust is not for the file's process to make: that
hands over a tape of what the kernels did, and a process in which no file ever runs does the same again.
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
from engine.watch import judge, tape
from engine.watch.confined import end_with, guarded, kept_from_writing, missing_sentence
from engine.watch.shape import is_report
from engine.watch.stand_in import answer_for_gpu
from engine.watch.user_file import REPORTS, NotServedError

STARTING_SECONDS = 120.0  # that importing torch and Triton may take beside the limit, on a busy machine
ENDING_SECONDS = 0.2  # from the end of its pipe to the end of a process
STOPPING_SECONDS = 10.0  # that a guard has to end what a file has started
LONGEST_ANSWER, LONGEST_TAPE = 8 * 2**20, 16 * 2**20  # bytes; of a tape, which nobody reads here
TAPE = b'{"tape": '
LONGEST_SENTENCE = 500
TORCH = 2 * 2**30  # bytes, at most, that torch and Triton take
MOST_FILES, LARGEST_FILE = 64, 64 * 2**20  # that are open at once, and bytes of one
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # one thread


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
    """What `report` of the module for the function says in the file's own process; raises FailedError.

    function: of REPORTS, or a module with a `report(file, experiment, stretch)` of its own.
    """
    asked = _asked(file, experiment, stretch, function)
    with Supervised(_command("file", limits)) as process:
        said = process.answer(limits.seconds, {"do": "report", **asked})
    if is_report(found := said.get("report")):
        return found | {"notes": found["notes"] + process.notes}
    raise _failed(file, said)


def judged(
    file: Path, experiment: Experiment, limits: Limits, stretch: float = 1.0, function: str = "attention"
) -> dict[str, Any]:
    """The same, as a judge sees it who does again what the file's kernels did; raises FailedError.

    `right_on_others` says whether it was right on numbers that the file has not seen, too.
    """
    asked = _asked(file, experiment, stretch, function)
    with Supervised(_command("judge", limits)) as judge:
        with Supervised(_command("file", limits)) as process:
            judge.start()  # has imported all that it needs before the file runs
            line = process.line(limits.seconds, {"do": "tape", **asked}, LONGEST_TAPE)
            if not line.startswith(TAPE):
                raise _failed(file, process.read(line, limits.seconds))
        found = judge.read(judge.line(limits.seconds, {"do": "judge", **asked}, more=line), limits.seconds)
    if "report" in found:
        return found["report"] | {"notes": found["report"]["notes"] + process.notes}
    raise _failed(file, found)


def _asked(file: Path, experiment: Experiment, stretch: float, function: str) -> dict[str, Any]:
    """What a process is asked; raises FailedError where there is no such file, or nothing to run it."""
    if not file.is_file():
        raise FailedError(f"{file} is not a file that can be read")
    if file.suffix != ".py":
        raise FailedError(f"{file} is not a Python file: its name must end in .py")
    if find_spec("triton") is None:
        raise FailedError(f"{file.name} cannot be run, because Triton is not installed here")
    place = str(file.resolve())
    return {"file": place, "experiment": experiment.flat(), "stretch": stretch, "function": function}


def _command(role: str, limits: Limits) -> list[str]:
    """A process of ours that waits for what it is asked: to run a file, or to judge a tape."""
    how = {"role": role, "memory": limits.memory, "parent": os.getpid()}
    return [sys.executable, "-m", __name__, json.dumps(how)]


def _failed(file: Path, said: dict[str, Any]) -> FailedError:
    """What a process said in place of a report: its sentence, if it is one."""
    sentence = said.get("sentence")
    if not isinstance(sentence, str) or not sentence.strip():
        sentence = "it answers with something that is not a report"
    line = " ".join("".join(each if each.isprintable() else " " for each in sentence).split())
    return FailedError(f"{file.name}: {line[:LONGEST_SENTENCE].removesuffix('.')}.")


class Supervised:
    """A process that is asked by a line of JSON and answers so, and is gone with what it started in the end.

    Its last argument is the descriptor on which it answers: a line when it has started, then one of JSON.
    """

    def __init__(self, command: list[str]):
        self._reading, writing = os.pipe()
        nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        env = {**os.environ, **ALONE, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
        command = [*command, str(writing)]
        self._process = Marked(command, env, stdin=subprocess.PIPE, **nowhere, cwd=ROOT, pass_fds=(writing,))
        os.close(writing)
        self._said = bytearray()
        self._started: bytes | None = None
        self._too_long = False

    def __enter__(self) -> Supervised:
        return self

    def __exit__(self, *_) -> None:
        os.close(self._reading)
        with suppress(OSError):
            self._process.stdin.close()
        self._process.terminate()  # which a guard takes for its time to end all
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOPPING_SECONDS)
        self._process.end()
        self._process.wait()

    @property
    def notes(self) -> list[str]:
        """What the system does not keep the file from, as it said before it ran the file."""
        with suppress(ValueError, KeyError, TypeError):
            if missing := json.loads(self._started or b"[]"):
                return [missing_sentence(missing)]
        return []

    def start(self) -> bool:
        """Wait until it has started; whether it has."""
        if self._started is None:
            self._started = self._line(STARTING_SECONDS)
        return bool(self._started)

    def answer(self, seconds: float, asked: dict[str, Any]) -> dict[str, Any]:
        """What it answers in so many seconds from when it has started, or how it ended instead."""
        return self.read(self.line(seconds, asked), seconds)

    def line(
        self, seconds: float, asked: dict[str, Any], most: int = LONGEST_ANSWER, more: bytes = b""
    ) -> bytes:
        """The line that it answers, of so many bytes at most; more: a line that it is given beside."""
        if not self.start():
            return b""
        with suppress(OSError):
            self._process.stdin.write(json.dumps(asked).encode() + b"\n" + more + b"\n")
            self._process.stdin.flush()
        return self._line(seconds, most)

    def read(self, line: bytes, seconds: float) -> dict[str, Any]:
        """What a line says; where there is none, how it ended in so many seconds."""
        if self._too_long:
            return {"sentence": f"it answers with more than {len(self._said) >> 20} MB"}
        if line:
            with suppress(ValueError, RecursionError):
                found = json.loads(line)
                return found if isinstance(found, dict) else {}
        return {"sentence": _ending(self._process, seconds)}

    def _line(self, seconds: float, most: int = LONGEST_ANSWER) -> bytes:
        """The next line in so many seconds; nothing where there is none, or none that ends."""
        until, looked = time.monotonic() + seconds, 0
        while (end := self._said.find(b"\n", looked)) < 0:
            if len(self._said) > most:
                self._too_long = True
                return b""
            looked = len(self._said)
            if not select([self._reading], [], [], max(0.0, until - time.monotonic()))[0]:
                return b""
            if not (part := os.read(self._reading, 2**20)):
                return b""
            self._said += part
        line = bytes(self._said[:end])
        del self._said[: end + 1]
        return line


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
    """The process itself: answer one request, and leave without what the file may have left running."""
    how, pipe = json.loads(sys.argv[1]), int(sys.argv[2])
    judges, missing = how["role"] == "judge", []
    if judges:
        end_with(how["parent"])
    else:
        missing = guarded(TORCH + how["memory"], how["parent"])
    _imported()
    missing += [] if judges else kept_from_writing()
    _limited(how["memory"])
    _said(pipe, missing)
    asked = json.loads(sys.stdin.buffer.readline())
    try:
        if judges:
            asked["tape"] = _tape(sys.stdin.buffer.readline())
        _said(pipe, _done(asked))
    except NotServedError as error:
        _said(pipe, {"sentence": str(error)})
    except MemoryError:
        _said(pipe, {"sentence": "it needs more memory than it may use"})
    os._exit(0)


def _tape(line: bytes) -> Any:
    """The tape that a file's process handed over, and nothing else that it said."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return json.loads(line)["tape"]
    raise NotServedError("it hands over something that is not a tape")


def _done(asked: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    if asked["do"] == "judge":
        return {"report": judge.judged(asked)}
    if asked["do"] == "tape":
        return {"tape": tape.taken(asked)}
    report = import_module(REPORTS.get(asked["function"], asked["function"])).report
    return {"report": report(Path(asked["file"]), Experiment.of(**asked["experiment"]), asked["stretch"])}


def _said(pipe: int, what: Any) -> None:
    """Answer with a line."""
    line = memoryview(json.dumps(what).encode() + b"\n")
    while line:
        line = line[os.write(pipe, line) :]


def _imported() -> None:
    """Import all that is large, and answer what a file asks of a GPU."""
    import torch
    import triton.runtime.interpreter  # noqa: F401

    for module in REPORTS.values():
        import_module(module)
    torch.set_num_threads(1)
    answer_for_gpu()


def _limited(memory: int) -> None:
    """Limit what comes on top of what is imported: shared memory too, and what is left of it in files."""
    import resource

    status = Path("/proc/self/status").read_text()
    held = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmSize"))
    limits = {"AS": held + memory, "FSIZE": LARGEST_FILE, "NOFILE": MOST_FILES, "CORE": 0}
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


if __name__ == "__main__":
    main()
