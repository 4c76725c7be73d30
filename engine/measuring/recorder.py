"""A recording that grows on the disk, until the time is up: what was measured is there when more is."""

import fcntl
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path

from engine.algorithms import ALGORITHMS
from engine.decoded import FileError
from engine.measuring.precompile import Kernel, compile_all
from engine.recordings.file import SECTIONS, load, save
from engine.recordings.recording import Device, Recording, Row, identity

COMPILING = 0.5  # of the time left, at most


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
        kernels = {row: Kernel.of_row(row) for row in rows}
        kernels = {row: kernel.smaller for row, kernel in kernels.items() if kernel.algorithm in ALGORITHMS}
        wanted = list(dict.fromkeys(kernels.values()))
        done = set(compile_all(wanted, COMPILING * self.left))
        self.tell(f"compiled {len(done)} of {len(wanted)} kernels")
        return {row for row, kernel in kernels.items() if kernel not in done}

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
