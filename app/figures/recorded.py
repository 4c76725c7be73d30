"""A recording's hardware counters against the model."""

from collections.abc import Sequence
from operator import attrgetter

from app.figures.algorithms import look, short
from app.figures.base import Figure, drawn, line, marks
from app.figures.colours import Palette
from app.figures.units import bytes_text, log_ticks
from engine.algorithms import ALGORITHMS
from engine.recordings.counters import RecordedCounters


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
        **{"symbol": "circle-open", "edge": {"width": 2}, "name": short(name)},
        customdata=list(told),
    )
