"""Figures of the page Beyond: lines over one quantity, on scales as they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from math import log10
from typing import NamedTuple

from app.figures.base import Figure, drawn, level, line, note, upright
from app.figures.colours import Palette
from app.figures.units import log_axis, log_ticks

HEIGHT = 300


class Line(NamedTuple):
    """A line's values, its colour by name, and its dash."""

    values: Sequence[float]
    tone: str
    dash: str = "solid"


def over(
    places: Sequence[float],
    lines: Mapping[str, Line],
    colours: Palette,
    *,
    x: str,
    y: str,
    unit: str,
    words: Callable[[float], str] = "{:,}".format,
    ticks: Sequence[float] = (),
    marked: float | None = None,
    levels: Mapping[str, float] | None = None,
    linear: bool = False,
    even: bool = False,
) -> Figure:
    """Lines over places, both on logarithmic axes unless values are linear, or places even.

    x, y: titles. words: of a place; ticks: places that are labelled. marked: a place with a line through it.
    levels: values with a line across, by their names.
    """
    levels = levels or {}
    every = [each for of in lines.values() for each in of.values] + [*levels.values()]
    traces = [
        line(
            places,
            of.values,
            getattr(colours, of.tone),
            f"{name}, %{{x:,}}: %{{y:.3s}}{unit}",
            name=name,
            dash=of.dash,
        )
        for name, of in lines.items()
    ]
    ends = min(places), max(places)
    notes = [
        note(0.01, value if linear else log10(value), name, colours.muted, xref="paper", yanchor="bottom")
        for name, value in levels.items()
    ]
    span = {"range": [0, 1.08 * max(every)], "title_text": y} if linear else {}
    return drawn(
        traces,
        colours,
        height=HEIGHT,
        x={"title_text": x} if even else log_axis(list(ticks or places), words, *ends, 0.04, title_text=x),
        y=span or {**log_ticks(min(each for each in every if each > 0), max(every), unit), "title_text": y},
        shapes=[level(value, colours.muted) for value in levels.values()]
        + [upright(at, colours.muted) for at in (marked,) if at],
        annotations=notes,
    )
