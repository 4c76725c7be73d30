"""Recordings in and out of files: JSON, packed by gzip where the name says so.

A file may come from a stranger, so loading trusts nothing: every field is checked against the types of
`recording`, nothing in it is executed, and whatever is wrong becomes one sentence (RecordingError).
"""

from __future__ import annotations

import gzip
import json
import os
import re
import types
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from engine.experiment import Experiment, ExperimentError
from engine.model.cluster.lanes import KINDS
from engine.problem.problem import Problem
from engine.recordings.cluster import ClusterTimeline, ClusterTiming, Extent, GpuMarks
from engine.recordings.recording import (
    INPUTS,
    NUMBERS,
    TERMS,
    Counters,
    Decoding,
    Fp8Timing,
    Recording,
    TilingTiming,
    Times,
    Timing,
    TracedCall,
    VariantTiming,
)
from engine.recordings.timelines import traced_fault
from engine.root import ROOT

FORMAT = "attention recording"
EITHER = "must have either {} or the reason why it has none"
VERSION = 1
LARGEST_FILE = 16 * 2**20  # bytes, unpacked
LONGEST_TEXT = 600
LARGEST_NUMBER = 10**18
# Markdown's links and pictures, references to them, tags, and addresses that become links by themselves
ELSEWHERE = re.compile(
    r"!?\[[^\]]*\]\s*[(\[:]|<[a-zA-Z/!?][^<>]*>|\w+:/\s*/|\bwww\.|\bmailto:", re.IGNORECASE
)
SHELF = ROOT / "assets" / "recordings"
CLUSTERS = SHELF / "cluster"  # of several GPUs, which no page of one GPU shows
JUDGES = SHELF / "judges"  # calls drawn by lot, on which no constant of the model may be set
COUNTED_BEFORE = SHELF / "before"  # the same calls in an earlier session: how far counters repeat
SECTIONS = (
    "timings",
    "sweep",
    "decoding",
    "counters",
    "timelines",
    "cluster",
    "cluster_timelines",
    "fp8",
    "variants",
)


class RecordingError(ValueError):
    """Why a file is no recording that can be shown, in one sentence."""


def dumps(recording: Recording) -> str:
    """The file's text: one row a line."""
    lines = [f'"format": "{FORMAT}"', f'"version": {VERSION}', f'"device": {line(recording.device)}']
    for name in SECTIONS:
        rows = ",\n".join(map(line, getattr(recording, name)))
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
    beside = path.with_name(path.name + ".part")
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
        return _decoded(Recording, content, "the recording")
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
    """What lies in assets/recordings, newest first; files that are no recordings are in `refused`."""
    found = [read for read in _shelf(folder) if isinstance(read, Recording)]
    return tuple(sorted(found, key=lambda recording: recording.device.date, reverse=True))


def refused(folder: Path = SHELF) -> tuple[str, ...]:
    """A sentence for each file of assets/recordings that cannot be shown."""
    return tuple(read for read in _shelf(folder) if isinstance(read, str))


def _shelf(folder: Path) -> Iterator[Recording | str]:
    for path in _files(folder, folder.stat().st_mtime_ns if folder.exists() else 0):
        try:
            changed = path.stat().st_mtime_ns
        except OSError as error:  # a link that leads nowhere
            yield f"{path.name} cannot be read: {error.strerror}"
            continue
        yield _read(path, changed)


@lru_cache(maxsize=8)
def _files(folder: Path, changed: int) -> tuple[Path, ...]:
    """`changed` is there so that a folder in which a file comes or goes is listed again."""
    return tuple(sorted((*folder.glob("*.json"), *folder.glob("*.json.gz"))))


@lru_cache(maxsize=32)
def _read(path: Path, changed: int) -> Recording | str:
    """`changed` is there so that a file which is written again is read again."""
    try:
        return load(path)
    except RecordingError as error:
        return str(error)


def line(row: object) -> str:
    """A row as JSON, without what is at its default."""
    return json.dumps(_plain(row), allow_nan=False)


def row_of(name: str, value: Any) -> Any:
    """A row of a section, or the device, from what `line` says of it; raises RecordingError or KeyError."""
    kind = _hints(Recording)[name]
    return _decoded(kind if name == "device" else get_args(kind)[0], value, name)


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


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decoded(kind: Any, value: Any, where: str) -> Any:
    """A value of this type from its JSON; raises RecordingError naming the place."""
    if is_dataclass(kind):
        return _record(kind, value, where)
    arguments = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        kinds = [kind for kind in arguments if isinstance(value, list) == (get_origin(kind) is tuple)]
        return None if value is None else _decoded((kinds or arguments)[0], value, where)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise RecordingError(f"{where} must be a list")
        if arguments[0] is int:  # tens of thousands of them
            return _whole_numbers(value, where)
        return tuple(_decoded(arguments[0], item, f"{where} {i + 1}") for i, item in enumerate(value))
    if get_origin(kind) is Mapping:
        if not isinstance(value, dict):
            raise RecordingError(f"{where} must be an object")
        return types.MappingProxyType(
            {_text(key, where): _decoded(arguments[1], item, where) for key, item in value.items()}
        )
    if kind is str:
        return _text(value, where)
    if kind is bool:
        if not isinstance(value, bool):
            raise RecordingError(f"{where} must be true or false")
        return value
    return _number(kind, value, where)


def _record(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise RecordingError(f"{where} must be an object")
    hints = _hints(kind)
    if unknown := set(value) - set(hints):
        raise RecordingError(f"{where} has {_shown(min(unknown))}, which this version does not know")
    given = {}
    for field in fields(kind):
        if field.name in value:
            given[field.name] = _decoded(hints[field.name], value[field.name], f"{field.name} of {where}")
        elif field.default is MISSING:
            raise RecordingError(f"{where} lacks {field.name}")
    record = kind(**given)
    if fault := _fault(record):
        raise RecordingError(f"{where} {fault}")
    return record


def _fault(record: Any) -> str | None:
    """What is wrong with values that each have the right type."""
    if isinstance(record, Problem):
        try:
            Experiment(problem=record)
        except ExperimentError as error:
            return f"is no problem: {error}"
    elif isinstance(record, Decoding) and (fault := _blocks_fault(record)):
        return fault
    elif isinstance(record, Times):
        if not 0 < record.p20 <= record.p50 <= record.p80:
            return "has percentiles that are not positive and rising"
    elif isinstance(record, Extent):
        if not 0 < record.least <= record.median <= record.most:
            return "has times that are not positive and rising"
    elif isinstance(record, ClusterTiming | ClusterTimeline | GpuMarks):
        return _cluster_fault(record)
    elif isinstance(record, Fp8Timing) and (record.numbers not in NUMBERS or record.inputs not in INPUTS):
        return f"must have numbers of {', '.join(NUMBERS)}, and inputs of {', '.join(INPUTS)}"
    elif isinstance(record, VariantTiming) and record.term not in (None, *TERMS):
        return f"has a term that is not known: it must be one of {', '.join(TERMS)}"
    elif isinstance(record, Timing | TilingTiming | Decoding):
        rate = record.bytes_per_second if isinstance(record, Decoding) else record.tflops
        if (record.times is None) == (record.skipped is None) or (record.times is None) != (rate is None):
            return "must have either times and their rate, or the reason why it has none"
    elif isinstance(record, TracedCall):
        return traced_fault(record)
    elif isinstance(record, Counters) and bool(record.kernels) == (record.skipped is not None):
        return EITHER.format("kernels")
    return None


def _cluster_fault(record: Any) -> str | None:
    if isinstance(record, GpuMarks):
        alike = len(record.kind) == len(record.start) == len(record.length)
        known = all(0 <= kind < len(KINDS) for kind in record.kind)
        ends = all(value >= 0 for value in (*record.start, *record.length))
        return None if alike and known and ends else "has marks that cannot be"
    if record.gpus < 1:
        return "must have at least one GPU"
    if isinstance(record, ClusterTiming):
        return None if (record.times is None) == (record.skipped is not None) else EITHER.format("times")
    if bool(record.marks) == (record.skipped is not None):
        return EITHER.format("marks")
    return None if len(record.marks) in (0, record.gpus) else "must have marks of every GPU"


def _blocks_fault(record: Decoding) -> str | None:
    try:
        Experiment(problem=record.problem).changed(block_q=record.block_q, block_kv=record.block_kv)
    except ExperimentError as error:
        return f"has blocks that cannot be: {error}"
    return None


def leads_elsewhere(text: str) -> str:
    """The first link, picture, address or tag in a text that a page may show as Markdown; empty for none."""
    found = ELSEWHERE.search(text)
    return found[0] if found else ""


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.isprintable():
        raise RecordingError(f"{where} must be one line of at most {LONGEST_TEXT} characters")
    if leads_elsewhere(value):
        raise RecordingError(f"{where} must hold no link, picture, address or tag")
    return value


def _number(kind: type, value: Any, where: str) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and (kind is int or not isinstance(value, float)):
        raise RecordingError(f"{where} must be a {'whole ' if kind is int else ''}number")
    if not 0 <= value <= LARGEST_NUMBER:
        raise RecordingError(f"{where} must be from 0 to {LARGEST_NUMBER:.0e}")
    return kind(value)


def _whole_numbers(values: list, where: str) -> tuple[int, ...]:
    if not all(type(value) is int and abs(value) <= LARGEST_NUMBER for value in values):
        raise RecordingError(f"{where} must be whole numbers up to {LARGEST_NUMBER:.0e}")
    return tuple(values)


def _shown(name: str) -> str:
    return repr(name[:40])
