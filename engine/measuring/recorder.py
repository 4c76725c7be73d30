"""A recording that grows on the disk, until the time is up: what was measured is there when more is.

Compiling takes longest, a second or two a kernel: it is done first, on all cores, into Triton's cache.
"""

import fcntl
import multiprocessing
import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from engine.algorithms import ALGORITHMS, BACKWARD, FORWARD
from engine.decoded import FileError
from engine.measuring.implementations import Prepare
from engine.measuring.machine import torch
from engine.measuring.sections import prepared
from engine.measuring.trial import attempt, random_inputs
from engine.problem.problem import Problem
from engine.recordings.file import SECTIONS, load, save
from engine.recordings.recording import Device, Recording, Row, identity
from engine.worker.jobs import JobError
from kernels.tilings.flash2 import SHORT

COMPILING = 0.5  # of the time left, at most
SMALL, LONG = 256, 2048  # tokens that are enough to have a kernel compiled for few keys and for many
MOST_PROCESSES = 14


class Recorder:
    """A recording that grows: rows by what they are about, written as they come, until the time is up.

    Raises FileError where the file cannot be written, is another machine's or version's, or is held by
    another process.
    """

    def __init__(self, path: Path, device: Device, budget: float, say: Callable[[str], None] = print):
        self.path, self.device, self.say = path, device, say
        self.started = time.monotonic()
        self.end = self.started + budget
        self.rows: dict[str, dict[tuple, Row]] = {name: {} for name in SECTIONS}
        self.writes = os.environ.get("RANK", "0") == "0"  # of several processes only the first
        self._lock = path.with_name(path.name + ".lock")
        self._held = self._hold() if self.writes else None
        try:
            self._resume()
            self.save()
        except BaseException:
            self.close()
            raise

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.end - time.monotonic()

    def has(self, section: str, row: Row) -> bool:
        """Whether such a row was measured before."""
        return identity(row) in self.rows[section]

    def add(self, section: str, rows: Iterable[Row]) -> None:
        """Keep rows: they are on the disk when this returns."""
        self.rows[section] |= {identity(row): row for row in rows}
        self.save()

    def measure(
        self,
        section: str,
        groups: Iterable[list[Row]],
        measure: Callable[[list[Row]], Iterable[Row]],
        said: Callable[[list[Row]], str],
        compiled: bool = True,
    ) -> None:
        """Measure the groups of which a row is lacking, until the time is up.

        compiled: first, the kernels of this project; rows whose kernel was not compiled in time are left out.
        """
        wanted = [rows for rows in groups if not all(self.has(section, row) for row in rows)]
        late = self.compile_ahead(chain(*wanted)) if compiled else ()
        for index, rows in enumerate(wanted, 1):
            ready = [row for row in rows if row not in late]
            if ready and self.left > 0:
                found = list(measure(ready))
                self.add(section, found)
                self.tell(f"{section} {index}/{len(wanted)}: {said(found)}")

    def compile_ahead(self, rows: Iterable[Row]) -> set[Row]:
        """The rows whose kernel, one of this project's, was not compiled in time."""
        small = {row: smaller(row) for row in rows if _algorithm(row) in ALGORITHMS}
        wanted = {
            row: (prepared(row), row.problem, getattr(row, "direction", FORWARD)) for row in small.values()
        }
        done = set(compile_all(wanted, COMPILING * self.left))
        self.tell(f"compiled {len(done)} of {len(wanted)} kernels")
        return {row for row, each in small.items() if each not in done}

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.writes:
            save(self.recording, self.path)

    def close(self) -> None:
        """Let others record."""
        if self._held is not None:
            with suppress(OSError):
                self._lock.unlink()
            self._held.close()

    @property
    def recording(self) -> Recording:
        """What there is so far."""
        return Recording(self.device, **{name: tuple(rows.values()) for name, rows in self.rows.items()})

    def tell(self, what: str) -> None:
        """A line of progress."""
        self.say(f"{time.monotonic() - self.started:6.0f} s  {what}")

    def _hold(self):
        """The file's lock, held, or a refusal. One that its holder removed meanwhile is another one."""
        try:
            held = self._lock.open("w")
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(self._lock.stat(), os.fstat(held.fileno())):
                return held
        except (BlockingIOError, FileNotFoundError):
            pass
        held.close()
        raise FileError(f"{self.path} is being recorded by another process: name another file")

    def _resume(self) -> None:
        """Take what is there; refuse to mix rows of two GPUs, drivers, versions or commits."""
        if not self.path.exists():
            return
        before = load(self.path)
        for what in ("gpu", "driver", "versions", "commit"):
            then, now = getattr(before.device, what), getattr(self.device, what)
            if then != now:
                raise FileError(
                    f"{self.path.name} was recorded with {what} {_shown(then)}, here it is {_shown(now)}:"
                    " name another file"
                )
        self.rows = {name: {identity(row): row for row in getattr(before, name)} for name in SECTIONS}


def _shown(value) -> str:
    return value if isinstance(value, str) else ", ".join(f"{name} {said}" for name, said in value.items())


def _algorithm(row: Row) -> str:
    return getattr(row, "algorithm", None) or row.provider


def smaller(row: Row) -> Row:
    """A call that compiles the same: two key heads, fewer queries and keys unless a kernel holds a row."""
    problem = row.problem
    rows, keys = _few(problem.seq_q), _few(problem.seq_kv)
    if ALGORITHMS[_algorithm(row)].unfused:
        rows, keys = 16, problem.seq_kv
    sizes = {"batch": 1, "heads": 2 * problem.group, "kv_heads": 2, "seq_q": rows, "seq_kv": keys}
    mask = problem.mask.resized(keys, problem.seq_kv)
    return replace(row, problem=replace(problem, **sizes, mask=mask))


def _few(length: int) -> int:
    """A short length that takes the same kernel, ragged where this one is."""
    return min(length, (LONG if length > SHORT else SMALL) + length % SMALL)


def compile_all(calls: Mapping[Hashable, tuple[Prepare, Problem, str]], seconds: float) -> Iterator[Hashable]:
    """Those that were compiled (or failed to) in this time, as they come; the rest is given up."""
    end = time.monotonic() + seconds
    processes = min(MOST_PROCESSES, max(1, (os.cpu_count() or 2) - 1), len(calls))
    if processes == 0:
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        done = pool.imap_unordered(_compiled, calls.items())
        with suppress(multiprocessing.TimeoutError):
            for _ in calls:
                yield done.next(timeout=max(0.1, end - time.monotonic()))


def _compiled(call: tuple[Hashable, tuple[Prepare, Problem, str]]) -> Hashable:
    """Runs in a process of its own; what fails here fails again, with its reason, when it is to be timed."""
    name, (prepare, problem, direction) = call
    torch.set_num_threads(1)
    cuda = torch.cuda.is_available()
    inputs = [tensor.requires_grad_(direction == BACKWARD) for tensor in random_inputs(problem, cuda)]

    def run() -> None:
        out = prepare(*inputs, problem)()
        if direction == BACKWARD:
            out.sum().backward()

    with suppress(JobError):
        attempt(run, cuda)
    return name
