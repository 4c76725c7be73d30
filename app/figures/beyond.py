"""Figures of the page Beyond: lines over one quantity, on scales as they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from math import log10
from typing import NamedTuple

from app.figures.base import Figure, drawn, level, line, note, upright
from app.figures.colours import Palette
from app.figures.units import even_ticks, log_axis, log_ticks

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
    told: Callable[[float], str],
    words: Callable[[float], str] = "{:,}".format,
    ticks: Sequence[float] = (),
    marked: float | None = None,
    levels: Mapping[str, float] | None = None,
    linear: bool = False,
) -> Figure:
    """Lines over places, both on logarithmic axes unless values are linear.

    x, y: titles. told, words: of a value and of a place. ticks: places that are labelled. marked: one with a
    line through it. levels: values with a line across, by their names.
    """
    levels, placed = levels or {}, log10 if not linear else float
    every = [each for of in lines.values() for each in of.values] + [*levels.values()]
    traces = [
        line(
            places,
            of.values,
            getattr(colours, of.tone),
            f"{name}, %{{x:,}}: %{{customdata}}",
            name=name,
            dash=of.dash,
            customdata=[str(told(each)) for each in of.values],
        )
        for name, of in lines.items()
    ]
    named = {"xref": "paper", "yanchor": "bottom"}
    axis = even_ticks(max(every), told) if linear else log_ticks(min(every), max(every), "", told)
    across = log_axis(list(ticks or places), words, min(places), max(places), 0.04)
    return drawn(
        traces,
        colours,
        height=HEIGHT,
        x={**across, "title_text": x},
        y={**axis, "title_text": y},
        shapes=[level(value, colours.muted) for value in levels.values()]
        + [upright(at, colours.muted) for at in (marked,) if at],
        annotations=[note(0.01, placed(at), name, colours.muted, **named) for name, at in levels.items()],
    )
