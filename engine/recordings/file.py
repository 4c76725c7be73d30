"""Recordings in and out of files: JSON.

A file may come from a stranger, so loading trusts nothing: whatever is wrong with it becomes one sentence
(FileError), what stands in it is checked by `decoded`.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.decoded import FileError, Format
from engine.experiment import Experiment
from engine.problem.hardware import gpu_named
from engine.problem.problem import Problem
from engine.recordings.decoded import fault_of
from engine.recordings.recording import Recording
from engine.root import ROOT

LARGEST_FILE = 16 * 2**20  # bytes
FORMAT = Format("attention recording", 1, "a recording of attention", LARGEST_FILE)
SHELF = ROOT / "assets" / "recordings"
CLUSTERS = SHELF / "cluster"  # of several GPUs, which no page of one GPU shows
JUDGES = SHELF / "judges"  # calls drawn by lot, on which no constant of the model may be set
SECTIONS = tuple(field.name for field in fields(Recording) if field.name != "device")


def dumps(recording: Recording) -> str:
    """The file's text: one row a line."""
    lines = [f'"format": "{FORMAT.name}"', f'"version": {FORMAT.version}']
    lines.append(f'"device": {_line(recording.device)}')
    for name in SECTIONS:
        rows = ",\n".join(map(_line, getattr(recording, name)))
        lines.append(f'"{name}": [\n{rows}\n]' if rows else f'"{name}": []')
    return "{" + ",\n".join(lines) + "}\n"


def save(recording: Recording, path: Path) -> None:
    """Write a file whole or not at all."""
    write_whole(path, dumps(recording).encode())


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole, on the disk, or leave what was there; raises FileError."""
    if path.exists() and not path.is_file():  # a device
        path.write_bytes(data)
        return
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")  # another process may write the same file
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise FileError(f"{path} cannot be written: {error.strerror}; what was there is kept") from None


def loads(data: bytes, name: str = "the file") -> Recording:
    """A recording from a file's bytes; raises FileError."""
    return FORMAT.loads(data, name, Recording, fault_of)


def load(path: Path) -> Recording:
    """A recording from a file; raises FileError."""
    return FORMAT.load(path, Recording, fault_of)


def recordings(folder: Path = SHELF) -> tuple[Recording, ...]:
    """What lies in assets/recordings; files that are no recordings are in `refused`.

    Those of the GPU that scenarios begin with come first, then others; of each the newest first.
    """
    found = (read for read in _shelf(folder) if isinstance(read, Recording))
    return tuple(
        sorted(found, key=lambda one: (is_of(one, Experiment.hardware), one.device.date), reverse=True)
    )


def recording_of(hardware: str, among: tuple[Recording, ...] | None = None) -> Recording | None:
    """The newest recording of a preset's GPU, by its key; of a GPU without one what stands first."""
    found = recordings() if among is None else among
    return next((one for one in found if is_of(one, hardware)), next(iter(found), None))


def is_of(recording: Recording, hardware: str) -> bool:
    """Whether a recording is of a preset's GPU, by its key."""
    gpu = gpu_named(recording.device.gpu)
    return gpu is not None and gpu.key == hardware


def refused(folder: Path = SHELF) -> tuple[str, ...]:
    """A sentence for each file of assets/recordings that cannot be shown."""
    return tuple(read for read in _shelf(folder) if isinstance(read, str))


def _shelf(folder: Path) -> Iterator[Recording | str]:
    names = os.listdir(folder) if folder.exists() else []
    for name in sorted(name for name in names if name.endswith(".json")):
        path = folder / name
        try:
            now = path.stat()
        except OSError as error:  # a link that leads nowhere
            yield f"{name} cannot be read: {error.strerror}"
            continue
        yield _read(path, (now.st_ino, now.st_size, now.st_mtime_ns))


@lru_cache(maxsize=32)
def _read(path: Path, version: tuple[int, int, int]) -> Recording | str:
    """`version` is there so that a file which is written again is read again, at the same time too."""
    try:
        return load(path)
    except FileError as error:
        return str(error)


def _line(row: object) -> str:
    """A row as JSON, without what is at its default."""
    return json.dumps(_plain(row), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Problem):  # its sizes stand in the file, as their defaults are the pages'
        return asdict(value, dict_factory=lambda pairs: {name: held for name, held in pairs if held})
    if is_dataclass(value):
        given = {field: getattr(value, field.name) for field in fields(value)}
        return {field.name: _plain(held) for field, held in given.items() if held != field.default}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
