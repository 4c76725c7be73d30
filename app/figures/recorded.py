"""Figures of a recording: its block sizes, and its times and hardware counters against the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from app.figures import tables
from app.figures.algorithms import look, short
from app.figures.base import Figure, drawn, line, marks
from app.figures.colours import Palette
from app.figures.speed import LEGEND
from app.figures.units import bytes_text, log_ticks, seconds_text
from engine.algorithms import ALGORITHMS
from engine.recordings.counters import RecordedCounters
from engine.recordings.heat_map import HeatMap
from engine.studies.comparison import HERE, Call


def heat_grid(heat: HeatMap, current: tuple[int, int], colours: Palette) -> str:
    """Times by block size as HTML, the fastest strongest; failures crossed out with their sentence."""
    fastest = np.nanmin(heat.seconds, initial=np.inf)  # ten times slower, or not run, has no colour
    shares = np.nan_to_num(np.clip(1 - np.log10(heat.seconds / fastest), 0, 1))

    def cell(rows: int, keys: int) -> tables.Cell:
        i, j = heat.block_q.index(rows), heat.block_kv.index(keys)
        struck = heat.reasons[i][j] is not None
        return tables.Cell(*_told(heat, i, j), shares[i, j], struck=struck, framed=(rows, keys) == current)

    return tables.by_blocks(heat.block_q, heat.block_kv, cell, colours, "Recorded time by block size")


def _told(heat: HeatMap, i: int, j: int) -> tuple[str, str]:
    """What a size's cell shows, and what it says when pointed at."""
    if (reason := heat.reasons[i][j]) is not None:
        return "memory" if "out of" in reason else "failed", reason
    if np.isnan(heat.seconds[i, j]):
        return "", "not recorded"
    launched = f"{heat.warps[i, j]} warps, {heat.stages[i, j]} stages"
    return seconds_text(heat.seconds[i, j]), f"{heat.tflops[i, j]:,.1f} TFLOP/s with {launched}"


def counters(
    rows: Sequence[RecordedCounters], real: str, modelled: str, origin: str, colours: Palette
) -> Figure:
    """Recorded over modelled bytes; `real` and `modelled` are attributes of a row."""
    calls = [
        Call(row.experiment.algorithm, origin, row.what, getattr(row, real), getattr(row, modelled))
        for row in rows
    ]
    room = {"height": 300, "legend": {"font": {"size": 12}}}
    return _against_model(calls, "B", bytes_text, "recorded by the counters", colours, **room)


def model_against_time(calls: Sequence[Call], colours: Palette) -> Figure:
    """Real over modelled seconds."""
    title = " or ".join(dict.fromkeys(call.origin.split(" ")[0] for call in calls))
    room = {"height": 250, "legend": {**LEGEND, "entrywidth": 55}}
    return _against_model(calls, "s", seconds_text, title, colours, every=2, **room)


def _against_model(
    calls: Sequence[Call], unit: str, words: Callable, title: str, colours: Palette, every: int = 1, **look
) -> Figure:
    """Both axes logarithmic; on the diagonal both are equal. Filled is what was measured here."""
    amounts = [amount for call in calls for amount in (call.real, call.modelled)]
    low, high = min(amounts) / 2, max(amounts) * 2
    groups: dict[tuple[str, str], list[Call]] = {}
    for call in sorted(calls, key=lambda call: [*ALGORITHMS].index(call.algorithm)):
        groups.setdefault((call.origin, call.algorithm), []).append(call)
    ticks = (log_ticks(low, high, unit, words, step) for step in (every, 1))
    x, y = ({"title_text": name, **axis} for name, axis in zip(("modelled", title), ticks, strict=True))
    points = [_points(own, own[0].origin == calls[0].origin, words, colours) for own in groups.values()]
    equal = line([low, high], [low, high], colours.muted, width=1, dash="dot", name="equal")
    return drawn([equal, *points], colours, x=x, y=y, **look)


def _points(calls: Sequence[Call], legend: bool, words: Callable, colours: Palette) -> dict:
    """The calls of one algorithm and origin; of several origins the first is in the legend."""
    algorithm, origin, *_ = calls[0]
    drawn_as, filled = look(algorithm), origin == HERE
    return marks(
        [call.modelled for call in calls],
        [call.real for call in calls],
        drawn_as.colour(colours),
        f"%{{customdata[0]}}: %{{customdata[1]}} {origin}, %{{customdata[2]}} modelled",
        symbol=drawn_as.symbol + "-open" * (not filled),
        edge=None if filled else {"width": 2},
        name=short(algorithm),
        showlegend=legend,
        customdata=[(call.what, words(call.real), words(call.modelled)) for call in calls],
    )
