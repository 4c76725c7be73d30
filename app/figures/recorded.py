"""Figures of a recording: its block sizes, and its times and hardware counters against the model."""

from collections.abc import Callable, Mapping, Sequence
from math import log10

from app.figures import tables
from app.figures.algorithms import look, short
from app.figures.base import Figure, drawn, line, marks
from app.figures.colours import Palette
from app.figures.speed import LEGEND
from app.figures.units import bytes_text, log_ticks, seconds_text
from engine.algorithms import ALGORITHMS
from engine.recordings.counters import RecordedCounters
from engine.recordings.timing import TilingTiming
from engine.studies.comparison import HERE, Call


def heat_grid(
    best: Mapping[tuple[int, int], TilingTiming], current: tuple[int, int], colours: Palette
) -> str:
    """Times by block size as HTML, the fastest strongest; failures crossed out with their sentence."""
    fastest = min((row.times.p50 for row in best.values() if row.times), default=0.0)

    def cell(rows: int, keys: int) -> tables.Cell:
        row, framed = best.get((rows, keys)), (rows, keys) == current
        if row is None:
            return tables.Cell("", "not recorded", 0.0, framed=framed)
        if row.times is None:
            shown = "memory" if "out of" in row.skipped else "failed"
            return tables.Cell(shown, row.skipped, 0.0, struck=True, framed=framed)
        share = max(0.0, 1 - log10(row.times.p50 / fastest))  # ten times slower has no colour
        told = f"{row.tflops:,.1f} TFLOP/s with {row.warps} warps, {row.stages} stages"
        return tables.Cell(seconds_text(row.times.p50), told, share, framed=framed)

    queries, keys = (sorted(set(sizes)) for sizes in zip(*best, strict=True))
    return tables.by_blocks(queries, keys, cell, colours, "Recorded time by block size")


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
