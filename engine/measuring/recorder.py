"""A recording that grows on the disk: row by row, until the time is up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from engine.recordings.file import SECTIONS, RecordingError, load, save
from engine.recordings.journal import Journal
from engine.recordings.recording import Device, Recording, Row, identity


class Recorder:
    """A recording that grows: rows by what they are about, kept as they come, until the time is up.

    Raises RecordingError where the file cannot be written, or is another machine's or version's.
    """

    def __init__(self, path: Path, device: Device, budget: float, say: Callable[[str], None] = print):
        self.path, self.device, self.say = path, device, say
        self.started = time.monotonic()
        self.end = self.started + budget
        self.rows: dict[str, dict[tuple, Row]] = {name: {} for name in SECTIONS}
        # of several processes only the first writes, and holds the file before anyone reads what it is now
        self.journal = Journal(path, device) if os.environ.get("RANK", "0") == "0" else None
        try:
            self._resume()
        except BaseException:
            if self.journal is not None:
                self.journal.close(done=not self.journal.rows)
            raise

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.end - time.monotonic()

    def has(self, section: str, row: Row) -> bool:
        """Whether such a row was measured before."""
        return identity(row) in self.rows[section]

    def add(self, section: str, rows: Iterable[Row]) -> None:
        """Keep rows: each is on the disk before the next."""
        for row in rows:
            self.rows[section][identity(row)] = row
            if self.journal is not None:
                self.journal.add(section, row)

    def save(self) -> None:
        """Write the whole file."""
        if self.journal is None:
            return
        try:
            save(self.recording, self.path)
        except OSError as error:
            raise RecordingError(
                f"{self.path} cannot be written: {error.strerror}; its rows are in {self.journal.path}"
            ) from None
        self.journal.clear()

    def close(self) -> None:
        """Write the whole file, and let others record."""
        self.save()
        if self.journal is not None:
            self.journal.close()

    @property
    def recording(self) -> Recording:
        """What there is so far."""
        return Recording(self.device, **{name: tuple(rows.values()) for name, rows in self.rows.items()})

    def tell(self, what: str) -> None:
        """A line of progress."""
        self.say(f"{time.monotonic() - self.started:6.0f} s  {what}")

    def _resume(self) -> None:
        """Take what is there: the file, then the rows beside it, which are newer."""
        if self.path.exists():
            before = load(self.path)
            self._same(before.device)
            for name in SECTIONS:
                self.rows[name] = {identity(row): row for row in getattr(before, name)}
        if self.journal is not None and self.journal.rows:
            self._same(self.journal.device)
            for section, row in self.journal.rows:
                self.rows[section][identity(row)] = row

    def _same(self, before: Device) -> None:
        """Refuse to mix rows of two GPUs, drivers, versions or commits."""
        for what in ("gpu", "driver", "versions", "commit"):
            then, now = getattr(before, what), getattr(self.device, what)
            if then != now:
                raise RecordingError(
                    f"{self.path.name} was recorded with {what} {_shown(then)}, here it is {_shown(now)}:"
                    " name another file"
                )


def _shown(value) -> str:
    return value if isinstance(value, str) else ", ".join(f"{name} {said}" for name, said in value.items())
