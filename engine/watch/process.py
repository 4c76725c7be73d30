"""A file run and judged in processes of its own, with limits on time, memory and reach.

One process imports all that is large, and forks another, in which the file runs: whatever that does, what
comes back is a report or one sentence. A report that others are to trust is not for it to make: it hands over
a tape of what the kernels did, and the first process, in which no file ever runs, does the same again.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any

from engine.experiment import Experiment
from engine.process_tree import Marked, end_with
from engine.root import ROOT, Refusal
from engine.watch import launches
from engine.watch.confined import NO_REPORT, answer_of, limit, told, understood
from engine.watch.judge import judged as judged_tape
from engine.watch.tape import taken
from engine.watch.user_file import CONTRACTS, NotServedError, report, watched_by

LONGEST_SENTENCE = 500
ALONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TRITON_INTERPRET"), "1")

# what a report is made of: nothing of another shape is taken for one, whoever has written it
LARGEST = 2**63
NUMBERS, ROWS = [int], [[int]]
FINDING = {
    "kind": str, "sentence": str, "line": (int, None), "program": (NUMBERS, None), "tensor": (str, None)
}  # fmt: skip
STEPS = {"kinds": [str], "tensors": [str], "programs": ROWS, "rows": ROWS, "whole": bool}
PROGRAM = {
    "launch": str, "program": NUMBERS, "moved": {str: NUMBERS}, "head": (int, None),
    "query_block": (int, None), "flash2": {str: NUMBERS}, "bytes": int, "flash2_bytes": (int, None),
}  # fmt: skip
WRONG = {"tile": NUMBERS, "row": int, "must": [(float, None)], "found": [(float, None)]}
REPORT = {
    "right": bool, "largest_error": (float, None), "tolerance": float, "read_bytes": {str: int},
    "written_bytes": {str: int}, "flash2_read_bytes": {str: int}, "flash2_written_bytes": {str: int},
    "launches": [str], "steps": STEPS, "notes": [str], "findings": [FINDING], "heads": int, "head": int,
    "block_q": int, "block_kv": int, "visits": ROWS, "extra_tiles": ROWS, "missing_tiles": ROWS,
    "repeated_tiles": ROWS, "tiles_of_all_heads": int, "by_program": [PROGRAM], "flash2_steps": ROWS,
    "first_wrong": (WRONG, None),
}  # fmt: skip
STEP = 7  # numbers of a step, see `engine.watch.steps.of_head`


@dataclass(frozen=True)
class Limits:
    """What a file may use: seconds from when it is imported, bytes beyond torch's own."""

    seconds: float = 120.0
    memory: int = 4 * 2**30


class FailedError(Refusal):
    """A file that was not served; the message is one sentence that names it."""


def run(
    file: Path,
    experiment: Experiment,
    limits: Limits,
    stretch: float = 1.0,
    function: str = "attention",
    judge: bool = False,
) -> dict[str, Any]:
    """What is seen of a file on one problem; raises FailedError.

    function: of CONTRACTS, or a module with a `report(file, experiment, stretch)` of its own.
    judge: as seen by doing again what the file's kernels did; then `right_on_others` says whether it was
    right on numbers that the file has not seen, too.
    """
    if not file.is_file():
        raise FailedError(f"{file} is not a file that can be read")
    if file.suffix != ".py":
        raise FailedError(f"{file} is not a Python file: its name must end in .py")
    if find_spec("triton") is None:
        raise FailedError(f"{file.name} cannot be run, because Triton is not installed here")
    asked = {
        "file": str(file.resolve()), "experiment": experiment.flat(), "stretch": stretch, "judge": judge,
        "function": function, "parent": os.getpid(), **asdict(limits),
    }  # fmt: skip
    compiled = ["env", "TRITON_INTERPRET=0"] * (function == launches.__name__)
    said = answered([*compiled, sys.executable, "-m", __name__], asked)
    if "report" in said:
        return said["report"]
    line = " ".join("".join(each if each.isprintable() else " " for each in said["sentence"]).split())
    raise FailedError(f"{file.name}: {line[:LONGEST_SENTENCE].removesuffix('.')}.")


def answered(command: list[str], asked: dict[str, Any]) -> dict[str, Any]:
    """What a process of ours answers, which is gone then with all that it has started."""
    env = {**os.environ, **ALONE, "CUDA_VISIBLE_DEVICES": ""}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with Marked(command, env, cwd=ROOT, **pipes) as process:
        try:
            said, _ = process.communicate(json.dumps(asked).encode())
        finally:
            process.end()
    return understood(said, process.returncode, asked["seconds"])


def main() -> None:
    """The process itself: what it answers goes where it prints, and nothing else does."""
    asked, answer = json.load(sys.stdin), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    end_with(asked["parent"])
    import torch  # all that is large
    import triton.runtime.interpreter  # noqa: F401

    from engine.watch.stand_in import answer_for_gpu

    for function in CONTRACTS:
        watched_by(function)
    torch.set_num_threads(1)
    answer_for_gpu()
    limit(asked["memory"])
    answer.write(told("report", lambda: _report(asked)))
    answer.flush()
    os._exit(0)


def _report(asked: dict[str, Any]) -> dict[str, Any]:
    """The report that was asked for; raises NotServedError."""
    seconds, function = asked["seconds"], asked["function"]
    given = Path(asked["file"]), Experiment.of(**asked["experiment"]), asked["stretch"], function

    def work() -> dict[str, Any]:
        if asked["judge"]:
            return taken(*given)
        return report(*given) if function in CONTRACTS else import_module(function).report(*given[:3])

    said = answer_of(work, seconds)
    sentence, found = said.get("sentence"), said.get("found")
    if isinstance(sentence, str) and sentence.strip():
        raise NotServedError(sentence)
    if asked["judge"] and found is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)  # whose alarm ends this process
        return judged_tape(found, *given)
    if not (fits(found, launches.SHAPE) if function == launches.__name__ else is_report(found)):
        raise NotServedError(NO_REPORT)
    return found


def is_report(value: Any) -> bool:
    """Whether something is a report on an attention, as far as its shape tells."""
    if not fits(value, REPORT):
        return False
    steps, first = value["steps"], value["first_wrong"]
    if first and [len(first[name]) for name in ("tile", "must", "found")] != [2, 4, 4]:
        return False
    named = len(steps["kinds"]), len(steps["tensors"]), LARGEST, len(steps["programs"])
    return all(
        len(row) == STEP and all(-1 <= number < most for number, most in zip(row, named, strict=False))
        for row in steps["rows"]
    )


def fits(value: Any, shape: Any) -> bool:
    """Whether a value of JSON has a shape: a type, a list of one, an object, or one of several."""
    if isinstance(shape, tuple):
        return any(fits(value, each) for each in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(each, shape[0]) for each in value)
    if isinstance(shape, dict):
        if not isinstance(value, dict) or not (str in shape or value.keys() == shape.keys()):
            return False
        return all(fits(each, shape.get(str) or shape[name]) for name, each in value.items())
    if shape is float:
        return type(value) in (int, float) and isfinite(value)
    if shape is int:
        return type(value) is int and abs(value) < LARGEST
    return value is None if shape is None else type(value) is shape


if __name__ == "__main__":
    main()
