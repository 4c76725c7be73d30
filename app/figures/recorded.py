"""Figures of a recording: its block sizes, and its hardware counters against the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.figures import tables
from app.figures.algorithms import look, short
from app.figures.base import Figure, drawn, equal_line, marks
from app.figures.colours import Palette
from app.figures.units import bytes_text, log_ticks, seconds_text
from engine.recordings.counters import RecordedCounters
from engine.recordings.heat_map import HeatMap


def heat_grid(heat: HeatMap, current: tuple[int, int], colours: Palette) -> str:
    """Times by block size as HTML, the fastest strongest; failures crossed out with their sentence."""
    shares = _shares(heat.seconds)
    cells = [
        [
            tables.Cell(
                _short(heat, i, j),
                _title(heat, i, j),
                shares[i, j],
                struck=heat.reasons[i][j] is not None,
                framed=(rows, columns) == current,
            )
            for j, columns in enumerate(heat.block_kv)
        ]
        for i, rows in reversed(list(enumerate(heat.block_q)))
    ]
    names = [str(rows) for rows in reversed(heat.block_q)]
    axes = "query block ↑, key block →, in rows"
    return tables.grid(
        names,
        [str(columns) for columns in heat.block_kv],
        cells,
        axes,
        colours,
        "Recorded time by block size",
    )


def _shares(seconds: np.ndarray) -> np.ndarray:
    """1 for the fastest, 0 for ten times slower and for what did not run."""
    fastest = np.nanmin(seconds, initial=np.inf)
    return np.nan_to_num(np.clip(1 - np.log10(seconds / fastest), 0, 1))


def _short(heat: HeatMap, i: int, j: int) -> str:
    if heat.reasons[i][j] is not None:
        return "memory" if "out of" in heat.reasons[i][j] else "failed"
    return "" if np.isnan(heat.seconds[i, j]) else seconds_text(heat.seconds[i, j])


def _title(heat: HeatMap, i: int, j: int) -> str:
    if heat.reasons[i][j] is not None:
        return heat.reasons[i][j]
    if np.isnan(heat.seconds[i, j]):
        return "not recorded"
    launched = f"{heat.warps[i, j]} warps, {heat.stages[i, j]} stages"
    return f"{heat.tflops[i, j]:,.1f} TFLOP/s with {launched}"


def counters(
    rows: Sequence[RecordedCounters], real: str, modelled: str, origin: str, colours: Palette
) -> Figure:
    """Recorded over modelled bytes, both axes logarithmic; on the diagonal they are equal.

    Args:
        real, modelled: attributes of a row, bytes.
    """
    values = [getattr(row, name) for row in rows for name in (real, modelled)]
    low, high = min(values) / 2, max(values) * 2
    equal = equal_line(low, high, colours)
    names = dict.fromkeys(row.experiment.algorithm for row in rows)
    points = [
        _points([row for row in rows if row.experiment.algorithm == name], real, modelled, origin, colours)
        for name in names
    ]
    return drawn(
        [equal, *points],
        colours,
        height=300,
        x={"title_text": "modelled", **log_ticks(low, high, "B")},
        y={"title_text": "recorded by the counters", **log_ticks(low, high, "B")},
        legend={"font": {"size": 12}},
    )


def _points(
    rows: Sequence[RecordedCounters], real: str, modelled: str, origin: str, colours: Palette
) -> dict:
    name = rows[0].experiment.algorithm
    drawn_as = look(name)
    pairs = [(getattr(row, modelled), getattr(row, real)) for row in rows]
    return marks(
        [expected for expected, _ in pairs],
        [found for _, found in pairs],
        drawn_as.colour(colours),
        f"%{{customdata[0]}}<br>%{{customdata[1]}} {origin}, %{{customdata[2]}} modelled",
        **{"name": short(name), "symbol": f"{drawn_as.symbol}-open", "size": 9, "edge": {"width": 2}},
        customdata=[
            (row.what, bytes_text(found), bytes_text(expected))
            for row, (expected, found) in zip(rows, pairs, strict=True)
        ],
    )
