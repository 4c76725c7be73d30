"""Recordings of one GPU, by its name, made one: of what several have measured, the newest row."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.decoded import FileError
from engine.parser import Parser, to_write
from engine.recordings.file import SECTIONS, load, save
from engine.recordings.recording import Recording, Row, identity


def merged(recordings: Sequence[Recording]) -> Recording:
    """All rows of recordings of one GPU; raises FileError for those of several.

    A row of an older recording keeps that one's commit, where it has a place for it.
    """
    oldest_first = sorted(recordings, key=lambda one: one.device.date)
    names = list(dict.fromkeys(one.device.gpu for one in oldest_first))
    if len(names) > 1:
        raise FileError(f"the recordings are of {' and '.join(names)}, they must be of one GPU")
    rows: dict[str, dict[tuple, Row]] = {name: {} for name in SECTIONS}
    for one in oldest_first:
        for name in SECTIONS:
            rows[name] |= {identity(row): _of(row, one.device.commit) for row in getattr(one, name)}
    device = oldest_first[-1].device
    return Recording(device, **{name: tuple(found.values()) for name, found in rows.items()})


def _of(row: Row, commit: str) -> Row:
    return replace(row, commit=row.commit or commit) if hasattr(row, "commit") else row


def main(arguments: list[str]) -> int:
    """Merge recordings of one GPU into a file that the dashboard shows."""
    parser = Parser("engine merge", main.__doc__)
    parser.add_argument(
        "files", nargs="+", type=Path, help="recordings; of a row that several have, the newest"
    )
    parser.add_argument("--out", type=to_write, required=True, help="file to write")
    options = parser.parse_args(arguments)
    found = merged([load(path) for path in options.files])
    save(found, options.out)
    counts = ", ".join(f"{len(rows)} {name}" for name in SECTIONS if (rows := getattr(found, name)))
    print(f"{options.out}: {found.device.gpu}, {counts}")
    return 0
