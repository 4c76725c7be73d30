"""Plants each mutant in a copy of the project, runs the tests nearest to it, and says which live."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import Queue

from engine.parser import Parser, whole
from tests.mutants import (
    app,
    caches,
    engine_cache,
    engine_counts,
    engine_found,
    engine_model,
    engine_time,
    hopper,
    hopper_backward,
    hopper_parts,
    kernels,
    pages,
    scripts,
)
from tests.mutants.mutant import ROOT, Mutant

ROOMS = (
    kernels,
    hopper,
    hopper_backward,
    hopper_parts,
    caches,
    engine_counts,
    engine_cache,
    engine_model,
    engine_time,
    engine_found,
    app,
    pages,
    scripts,
)
MUTANTS = tuple(mutant for room in ROOMS for mutant in room.MUTANTS)
GOAL = 0.95  # share that must be killed
SLOWEST = 600  # seconds of a mutant's tests; one that makes them hang is seen
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "node_modules", "__pycache__", ".*_cache", "shared")
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:rerunfailures")
KILLED, LIVES = "killed", "lives"


class MutantError(RuntimeError):
    """Why there is no verdict."""


def copied(to: Path) -> Path:
    """A copy of the project that shares what is installed."""
    shutil.copytree(ROOT, to, ignore=LEFT_OUT)
    for shared in (".venv", "node_modules"):
        if (ROOT / shared).exists():
            (to / shared).symlink_to((ROOT / shared).resolve())
    return to


def ended_well(copy: Path, tests: Iterable[str]) -> tuple[bool, str]:
    """Whether tests pass in a copy, and the end of what they said."""
    # compiled files stand from before: one of a mutant could be taken for the original's
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    command = [sys.executable, *PYTEST, *tests]
    try:
        ended = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SLOWEST
        )
    except subprocess.TimeoutExpired:
        return False, f"no end within {SLOWEST} s"
    said = "\n".join(ended.stdout.strip().splitlines()[-4:])
    if ended.returncode not in (0, 1):  # no test ran: neither verdict would be true
        raise MutantError(f"pytest {' '.join(tests)} ended with {ended.returncode}: {said}{ended.stderr}")
    return ended.returncode == 0, said


def lives(mutant: Mutant, copy: Path) -> bool:
    """Whether a mutant's tests pass although it is planted; the copy is as before afterwards."""
    path = copy / mutant.file
    original, stamp = path.read_text(encoding="utf-8"), path.stat()
    try:
        path.write_text(original.replace(mutant.before, mutant.after), encoding="utf-8")
        os.utime(path, (stamp.st_mtime + 2, stamp.st_mtime + 2))
        return ended_well(copy, mutant.tests)[0]
    finally:
        path.write_text(original, encoding="utf-8")
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def verdicts(mutants: list[Mutant], known: dict[str, str], keep, processes: int) -> dict[str, str]:
    """By name, whether each was killed or lives; what is known already is not run again."""
    found = {one.name: known[_key(one)] for one in mutants if _key(one) in known}
    left = [one for one in mutants if one.name not in found]
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        free: Queue[Path] = Queue()
        for number in range(min(processes, len(left))):
            free.put(copied(Path(folder) / str(number)))

        def alone(tests: tuple[str, ...]) -> tuple[tuple[str, ...], bool, str]:
            copy = free.get()
            try:
                return tests, *ended_well(copy, tests)
            finally:
                free.put(copy)

        def one_verdict(mutant: Mutant) -> None:
            copy, began = free.get(), time.monotonic()
            try:
                verdict = LIVES if lives(mutant, copy) else KILLED
            finally:
                free.put(copy)
            found[mutant.name] = verdict
            keep(mutant, verdict)
            print(f"{verdict:6} {time.monotonic() - began:4.0f} s  {mutant.name}: {mutant.why}", flush=True)

        with ThreadPoolExecutor(processes) as pool:
            for tests, passed, said in pool.map(alone, dict.fromkeys(one.tests for one in left)):
                if not passed:
                    raise MutantError(f"{' '.join(tests)} fails with nothing planted:\n{said}")
            list(pool.map(one_verdict, left))
    return found


def _key(mutant: Mutant) -> str:
    return json.dumps(asdict(mutant), sort_keys=True)


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 where at least 95% are killed, 1 where fewer are, 2 where one cannot be planted."""
    parser = Parser("tests.mutants", __doc__)
    parser.add_argument(
        "--only", metavar="NAME", action="append", help="one mutant, or all whose names begin so"
    )
    parser.add_argument("--list", action="store_true", help="name them and run nothing")
    parser.add_argument("--processes", type=whole, default=2)
    parser.add_argument(
        "--results", type=Path, help="file of verdicts, to go on from; what lived is run again"
    )
    options = parser.parse_args(arguments)
    chosen = [one for one in MUTANTS if not options.only or one.name.startswith(tuple(options.only))]
    if not chosen:
        print(f"only is {options.only[0]!r}; no mutant's name begins so", file=sys.stderr)
        return 2
    if faults := [fault for one in chosen if (fault := one.fault())]:
        print("\n".join(faults), file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{one.name}: {one.why}" for one in chosen))
        return 0
    try:
        return _judged(chosen, options)
    except MutantError as error:
        print(error, file=sys.stderr)
        return 2


def _judged(chosen: list[Mutant], options: argparse.Namespace) -> int:
    lines = options.results.read_text().splitlines() if options.results and options.results.exists() else []
    known = {line["mutant"]: line["verdict"] for line in map(json.loads, lines) if line["verdict"] == KILLED}

    def keep(mutant: Mutant, verdict: str) -> None:
        if options.results:
            with options.results.open("a") as file:
                file.write(json.dumps({"mutant": _key(mutant), "verdict": verdict}) + "\n")

    found = verdicts(chosen, known, keep, options.processes)
    living = [one for one in chosen if found[one.name] == LIVES]
    for one in living:
        print(f"lives: {one.name} in {one.file}: {one.why}; {' '.join(one.tests)} pass.")
    killed = len(chosen) - len(living)
    print(f"{killed} of {len(chosen)} mutants were killed, {killed / len(chosen):.1%}.")
    return int(killed < GOAL * len(chosen))
