"""Timelines in and out of files: Chrome trace JSON for ui.perfetto.dev, CSV and JSON.

CSV and JSON hold everything, so that they read back to an equal timeline; a Chrome trace is for looking at.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from engine.experiment import Experiment, ExperimentError
from engine.model.block_requests import block_requests
from engine.model.timeline import COLUMNS, MODELLED, Timeline, TimelineError

FORMAT, VERSION = "attention timeline", 1
MOST_SLICES = 100_000  # of a Chrome trace: about 45 MB
LARGEST_FILE = 64 * 2**20  # characters
SM_PROCESS, COUNTER_PROCESS = 1, 2
MICRO = 1e6


def chrome_trace(timeline: Timeline) -> str:
    """A Chrome trace: SMs as threads, blocks as slices, blocks running and bytes asked for as counters.

    Where an SM holds several blocks at once each place is a thread of its own. Times are in microseconds.
    Raises TimelineError where there are too many blocks for a browser.
    """
    if len(timeline) > MOST_SLICES:
        raise TimelineError(
            f"a Chrome trace has at most {MOST_SLICES:,} blocks, this timeline {len(timeline):,}:"
            " take a smaller problem, or CSV or JSON"
        )
    events = [*_names(timeline), *_slices(timeline), *_counters(timeline)]
    about = {**_about(timeline), "seconds": timeline.seconds, "busy share": timeline.busy_share}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about})


def _names(timeline: Timeline) -> list[dict[str, Any]]:
    """Metadata events that name processes and threads."""
    of = f" of {timeline.experiment.gpu.with_article}" if timeline.origin == MODELLED else ""
    processes = {SM_PROCESS: f"SMs{of}, {timeline.origin}", COUNTER_PROCESS: "all SMs together"}
    events = [
        {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        for process, name in processes.items()
    ]
    for thread in np.unique(_threads(timeline)).tolist():
        sm, place = divmod(thread - 1, _places(timeline))
        name = f"SM {sm}" if _places(timeline) == 1 else f"SM {sm}, place {place + 1}"
        events += [
            {"ph": "M", "name": "thread_name", "pid": SM_PROCESS, "tid": thread, "args": {"name": name}},
            {
                "ph": "M",
                "name": "thread_sort_index",
                "pid": SM_PROCESS,
                "tid": thread,
                "args": {"sort_index": thread},
            },
        ]
    return events


def _places(timeline: Timeline) -> int:
    return max(timeline.resident)


def _threads(timeline: Timeline) -> np.ndarray:
    """[blocks] thread of each block, from 1: Chrome traces keep 0 for the process."""
    return timeline.sm.astype(np.int64) * _places(timeline) + timeline.place + 1


def _slices(timeline: Timeline) -> list[dict[str, Any]]:
    tiles, amounts = block_requests(timeline)
    columns = (
        _threads(timeline), timeline.start * MICRO, (timeline.end - timeline.start) * MICRO, timeline.kernel,
        timeline.head, timeline.query_block, timeline.key_block, timeline.wave, tiles, amounts,
    )  # fmt: skip
    events = []
    for thread, start, length, kernel, head, query, key, wave, visited, moved in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        where = {"query block": query, "key block": key}
        where = {name: block for name, block in where.items() if block >= 0}
        events.append(
            {
                "ph": "X",
                "name": ", ".join([f"head {head}", *(f"{name} {block}" for name, block in where.items())]),
                "cat": timeline.kernels[kernel],
                "pid": SM_PROCESS,
                "tid": thread,
                "ts": start,
                "dur": length,
                "args": {
                    "kernel": timeline.kernels[kernel],
                    "head": head,
                    **where,
                    "wave": wave,
                    "tiles visited": visited,
                    "bytes asked for": moved,
                },
            }
        )
    return events


def _counters(timeline: Timeline) -> list[dict[str, Any]]:
    """Blocks running, and bytes that the blocks that have ended asked for."""
    times, running = timeline.running
    order = np.argsort(timeline.end, kind="stable")
    tracks = (
        ("blocks running", "blocks", times, running),
        (
            "bytes asked for by ended blocks",
            "bytes",
            timeline.end[order],
            np.cumsum(block_requests(timeline)[1][order]),
        ),
    )
    return [
        {"ph": "C", "name": name, "pid": COUNTER_PROCESS, "tid": 0, "ts": time, "args": {unit: value}}
        for name, unit, at, values in tracks
        for time, value in zip((at * MICRO).tolist(), values.tolist(), strict=True)
    ]


def as_json(timeline: Timeline) -> str:
    """Everything about a timeline as one JSON object; times in seconds."""
    columns = {name: getattr(timeline, name).tolist() for name in COLUMNS}
    return json.dumps({**_about(timeline), "columns": columns})


def from_json(text: str) -> Timeline:
    """The timeline that `as_json` wrote; raises TimelineError."""
    content = _parsed(text)
    return _timeline(content, content.get("columns"))


def as_csv(timeline: Timeline) -> str:
    """A row a block; the first line is a comment that says what it is about. Times are in seconds.

    The last columns, wave, tiles and bytes, follow from the others.
    """
    lines = io.StringIO()
    lines.write(f"# {json.dumps(_about(timeline))}\n")
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow([*COLUMNS, "wave", "tiles", "bytes"])
    columns = [*(getattr(timeline, name) for name in COLUMNS), timeline.wave, *block_requests(timeline)]
    writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
    return lines.getvalue()


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


def _about(timeline: Timeline) -> dict[str, Any]:
    """What a file says of a timeline besides its columns."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "experiment": timeline.experiment.flat(),
        "origin": timeline.origin,
        "order": timeline.order,
        "kernels": list(timeline.kernels),
        "sms": timeline.sms,
        "resident": list(timeline.resident),
    }


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


FORMATS: MappingProxyType[str, Callable[[Timeline], str]] = MappingProxyType(
    {"perfetto": chrome_trace, "csv": as_csv, "json": as_json}
)
