"""Rows of a recording that is being made, on the disk as soon as they are measured: a line each, synced.

They lie beside the recording, in a file that one process at a time may hold, until the whole file has them.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from engine.recordings.file import RecordingError, line, row_of
from engine.recordings.recording import Device, Row

try:
    import fcntl
except ImportError:  # Windows, where there is no Triton to record either
    fcntl = None


class Journal:
    """The rows beside one recording; raises RecordingError where they cannot be kept."""

    def __init__(self, recording: Path, device: Device):
        self.recording, self._device = recording, device
        self.path = recording.with_name(recording.name + ".rows")
        self.device = device  # of the rows that are there already
        try:
            self._file = self.path.open("a+b")
        except OSError as error:
            raise self._refusal(error) from None
        try:
            self._lock()
            self.rows = self._read()
            if not self._whole:
                self._append(line(device))
        except BaseException:
            self._file.close()
            raise

    def add(self, section: str, row: Row) -> None:
        """Keep a row: it is on the disk when this returns."""
        self._append(f'["{section}", {line(row)}]')

    def clear(self) -> None:
        """Forget the rows: the recording has them."""
        self._file.truncate(0)
        self._append(line(self._device))

    def close(self, done: bool = True) -> None:
        """Let another process record; rows that the recording has are removed."""
        if done:
            with suppress(OSError):
                self.path.unlink()
        self._file.close()

    def _append(self, text: str) -> None:
        try:
            self._file.write(text.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: OSError) -> RecordingError:
        return RecordingError(
            f"{self.recording} cannot be written: {error.strerror}; what was measured before is kept"
        )

    def _lock(self) -> None:
        """Hold the file, or say who does; a file that its holder removed meanwhile is another one."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordingError(
                f"{self.recording} is being recorded by another process: name another file"
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(self.path.stat(), os.fstat(self._file.fileno())):
                return
        raise RecordingError(f"{self.recording} was finished by another process just now: run it again")

    def _read(self) -> list[tuple[str, Row]]:
        """The rows that an earlier process left, as far as they are whole."""
        self._file.seek(0)
        lines = self._file.read().split(b"\n")[:-1]  # what follows the last end of a line was cut off
        self._whole = sum(len(each) + 1 for each in lines)
        self._file.truncate(self._whole)
        rows = []
        for number, text in enumerate(lines):
            try:
                said = json.loads(text)
                if not number:
                    self.device = row_of("device", said)
                    continue
                rows.append((said[0], row_of(*said)))
            except (ValueError, TypeError, IndexError, KeyError):
                raise RecordingError(
                    f"{self.path} is damaged in line {number + 1}: remove it to begin anew"
                ) from None
        return rows
