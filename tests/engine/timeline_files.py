"""Timelines out of the files that the product writes: the other side's reader, which trusts nothing."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np

from engine import Experiment, ExperimentError
from engine.model.timeline import COLUMNS, Timeline, TimelineError
from engine.studies.timeline_files import FORMAT, VERSION

LARGEST_FILE = 64 * 2**20  # characters


def from_json(text: str) -> Timeline:
    """The timeline that `as_json` wrote; raises TimelineError."""
    content = _parsed(text)
    return _timeline(content, content.get("columns"))


def from_csv(text: str) -> Timeline:
    """The timeline that `as_csv` wrote; raises TimelineError."""
    about, _, table = text.partition("\n")
    if not about.startswith("# "):
        raise TimelineError("the file is no timeline: its first line must say what it is about")
    rows = list(csv.reader(io.StringIO(table)))
    if not rows or tuple(rows[0][: len(COLUMNS)]) != tuple(COLUMNS):
        raise TimelineError(f"the file is no timeline: its columns must begin with {', '.join(COLUMNS)}")
    values = zip(*(row[: len(COLUMNS)] for row in rows[1:]), strict=False)
    return _timeline(_parsed(about[2:]), dict(zip(COLUMNS, map(list, values), strict=False)))


def _parsed(text: str) -> dict[str, Any]:
    if len(text) > LARGEST_FILE:
        raise TimelineError(f"the file is larger than {LARGEST_FILE // 2**20} MB")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise TimelineError("the file is damaged: it is not JSON") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise TimelineError("the file is no timeline of attention")
    if content.get("version") != VERSION:
        raise TimelineError(f"the file must be of version {VERSION}")
    return content


def _timeline(about: dict[str, Any], columns: Any) -> Timeline:
    """A timeline from what a file holds; raises TimelineError."""
    try:
        return Timeline(
            Experiment.of(**about["experiment"]),
            str(about["origin"]),
            str(about["order"]),
            tuple(map(str, about["kernels"])),
            int(about["sms"]),
            tuple(map(int, about["resident"])),
            **{name: _column(columns[name], dtype) for name, dtype in COLUMNS.items()},
        )
    except ExperimentError as error:
        raise TimelineError(f"the file is damaged: {error}") from None
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, TimelineError):
            raise
        raise TimelineError("the file is damaged: a part is missing, or of the wrong kind") from None


def _column(values: list, dtype: type) -> np.ndarray:
    """[blocks] of this dtype from numbers or their text; raises ValueError where one is none."""
    column = np.array(values, np.float64)
    if column.ndim != 1 or (issubclass(dtype, np.integer) and not _whole(column, np.iinfo(dtype))):
        raise ValueError("not a column of this dtype")
    return column.astype(dtype)


def _whole(column: np.ndarray, limits: np.iinfo) -> bool:
    return bool(
        (column == np.floor(column)).all() and ((column >= limits.min) & (column <= limits.max)).all()
    )
