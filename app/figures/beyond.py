"""Figures of the page Beyond: lines over one quantity, on scales as they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from math import log10

from app.figures.base import Figure, drawn, level, line, note, upright
from app.figures.colours import Palette
from app.figures.units import even_ticks, log_axis, log_ticks

HEIGHT = 300


def over(
    places: Sequence[float],
    lines: Mapping[str, tuple],
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

    lines: by name their values, a colour's name, and maybe a dash. x, y: titles. told, words: of a value and
    of a place. ticks: places that are labelled. marked: one with a line through it. levels: values with a
    line across, by their names.
    """
    levels, placed = levels or {}, log10 if not linear else float
    every = [each for values, *_ in lines.values() for each in values] + [*levels.values()]
    traces = []
    for name, (values, tone, *dash) in lines.items():
        look = {"name": name, "dash": dash[0] if dash else "solid"}
        told_of = [str(told(each)) for each in values]
        hover = f"{name}, %{{x:,}}: %{{customdata}}"
        traces.append(line(places, values, getattr(colours, tone), hover, customdata=told_of, **look))
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
