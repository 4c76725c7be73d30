"""Recordings in and out of files: JSON, packed by gzip where the name says so.

A file may come from a stranger, so loading trusts nothing: whatever is wrong with it becomes one sentence
(RecordingError), what stands in it is checked by `decoded`.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.experiment import Experiment
from engine.problem.hardware import gpu_named
from engine.problem.problem import Problem
from engine.recordings.decoded import RecordingError, decoded
from engine.recordings.recording import Recording
from engine.root import ROOT

FORMAT = "attention recording"
VERSION = 1
LARGEST_FILE = 16 * 2**20  # bytes, unpacked
SHELF = ROOT / "assets" / "recordings"
CLUSTERS = SHELF / "cluster"  # of several GPUs, which no page of one GPU shows
JUDGES = SHELF / "judges"  # calls drawn by lot, on which no constant of the model may be set
SECTIONS = tuple(field.name for field in fields(Recording) if field.name != "device")


def dumps(recording: Recording) -> str:
    """The file's text: one row a line."""
    lines = [f'"format": "{FORMAT}"', f'"version": {VERSION}', f'"device": {_line(recording.device)}']
    for name in SECTIONS:
        rows = ",\n".join(map(_line, getattr(recording, name)))
        lines.append(f'"{name}": [\n{rows}\n]' if rows else f'"{name}": []')
    return "{" + ",\n".join(lines) + "}\n"


def save(recording: Recording, path: Path) -> None:
    """Write a file whole or not at all; packed where its name ends in .gz."""
    data = dumps(recording).encode()
    write_whole(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole, on the disk, or leave what was there; raises OSError."""
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
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


def loads(data: bytes, name: str = "the file") -> Recording:
    """A recording from a file's bytes, packed or not; raises RecordingError."""
    content = _parsed(_unpacked(data, name), name)
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise RecordingError(f"{name} is not a recording of attention")
    version = content.pop("version", None)
    if version != VERSION or isinstance(version, bool):
        said = str(version)[:20] if isinstance(version, int) else "unreadable"
        raise RecordingError(f"{name} is a recording of version {said}; this program reads version {VERSION}")
    try:
        return decoded(Recording, content, "the recording")
    except RecordingError as error:
        raise RecordingError(f"{name} is damaged: {error}") from None


def load(path: Path) -> Recording:
    """A recording from a file; raises RecordingError."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise RecordingError(f"{path.name} cannot be read: {error.strerror}") from None
    return loads(data, path.name)


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
    for name in sorted(name for name in names if name.endswith((".json", ".json.gz"))):
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
    except RecordingError as error:
        return str(error)


def _line(row: object) -> str:
    """A row as JSON, without what is at its default."""
    return json.dumps(_plain(row), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Problem):
        return asdict(value)
    if is_dataclass(value):
        given = {field: getattr(value, field.name) for field in fields(value)}
        return {field.name: _plain(held) for field, held in given.items() if held != field.default}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _unpacked(data: bytes, name: str) -> bytes:
    too_large = RecordingError(f"{name} is larger than {LARGEST_FILE // 2**20} MB")
    if len(data) > LARGEST_FILE:
        raise too_large
    if data[:2] != b"\x1f\x8b":
        return data
    unpacking = zlib.decompressobj(wbits=31)  # gzip
    try:
        text = unpacking.decompress(data, LARGEST_FILE + 1)
    except zlib.error:
        raise RecordingError(f"{name} is damaged: it cannot be unpacked") from None
    if len(text) > LARGEST_FILE:
        raise too_large
    if not unpacking.eof:
        raise RecordingError(f"{name} is damaged: it ends too early")
    return text


def _parsed(text: bytes, name: str) -> Any:
    def refuse(constant: str):
        raise ValueError(constant)

    try:
        return json.loads(text.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError):
        raise RecordingError(f"{name} is damaged: it is not JSON") from None
