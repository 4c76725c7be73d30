"""Figures of a recording: its block sizes, and its hardware counters against the model."""

from collections.abc import Mapping, Sequence
from math import log10
from operator import attrgetter

from app.figures import tables
from app.figures.algorithms import look, short
from app.figures.base import Figure, drawn, line, marks
from app.figures.colours import Palette
from app.figures.units import bytes_text, log_ticks, seconds_text
from engine.algorithms import ALGORITHMS
from engine.recordings.counters import RecordedCounters
from engine.recordings.timing import TilingTiming


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

    return tables.by_blocks(best, cell, colours, "Recorded time by block size")


def counters(
    rows: Sequence[RecordedCounters], real: str, modelled: str, origin: str, colours: Palette
) -> Figure:
    """Recorded over modelled bytes, both axes logarithmic; `real` and `modelled` are attributes of a row."""
    groups: dict[str, list[RecordedCounters]] = {name: [] for name in ALGORITHMS}
    for row in rows:
        groups[row.experiment.algorithm].append(row)
    of = attrgetter(real), attrgetter(modelled)
    amounts = [amount(row) for row in rows for amount in of]
    low, high = min(amounts) / 2, max(amounts) * 2
    points = [
        _points(name, own, [*map(of[1], own)], [*map(of[0], own)], origin, colours)
        for name, own in groups.items()
        if own
    ]
    equal = line([low, high], [low, high], colours.muted, width=1, dash="dot", name="equal")
    x, y = (
        {"title_text": title, **log_ticks(low, high, "B", bytes_text)}
        for title in ("modelled", "recorded by the counters")
    )
    return drawn([equal, *points], colours, x=x, y=y, height=300, legend={"font": {"size": 12}})


def _points(name: str, rows: list, x: list[float], y: list[float], origin: str, colours: Palette) -> dict:
    """The calls of one algorithm."""
    told = zip((row.what for row in rows), map(bytes_text, y), map(bytes_text, x), strict=True)
    return marks(
        *(x, y, look(name).colour(colours)),
        f"%{{customdata[0]}}: %{{customdata[1]}} {origin}, %{{customdata[2]}} modelled",
        **{"symbol": f"{look(name).symbol}-open", "edge": {"width": 2}, "name": short(name)},
        customdata=list(told),
    )
