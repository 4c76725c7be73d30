"""A chart of lines over one quantity, on scales as they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from math import log10
from typing import Any, NamedTuple

from app.figures.base import Figure, drawn, level, line, note, upright
from app.figures.colours import Palette
from app.figures.units import even_ticks, log_axis, log_ticks, short


class Curve(NamedTuple):
    """One line.

    Attributes:
        values: by place.
        tone: a colour of the palette, by its name.
        dash: how it is drawn; "marks" are points without a line.
        said: what the hover says of it besides its name.
        points: whether its places have marks.
        listed: whether the legend names it.
    """

    values: Mapping[float, float]
    tone: str
    dash: str = "solid"
    said: str = ""
    points: bool = False
    listed: bool = True


# a legend of many names: left of 0 it takes the margin's width too, which leaves two names room on a phone
MANY, NARROW = 4, {"font": {"size": 12}, "x": -0.06, "entrywidth": 104}
# axes of a chart over the sequence length
OVER_LENGTH = {"x": "sequence length N", "words": short, "ticks": tuple(4**power for power in range(3, 11))}


def each(ways: Mapping[str, tuple], of: Callable[[Any], Mapping[float, float]]) -> dict[str, Curve]:
    """Curves by name of what is found for each of some ways; a way stands before its line's tone and dash."""
    return {name: Curve(of(way), *look) for name, (way, *look) in ways.items()}


def curves(
    lines: Mapping[str, Curve],
    colours: Palette,
    *,
    x: str,
    y: str,
    told: Callable[[float], str],
    words: Callable[[float], str] = "{:,}".format,
    ticks: Sequence[float] = (),
    marked: Mapping[float, str] | None = None,
    levels: Mapping[str, float] | None = None,
    linear: bool = False,
    even: bool = False,
    height: int = 300,
) -> Figure:
    """Lines by their names, both axes logarithmic unless values are linear, or places are even.

    x, y: titles. told, words: of a value and of a place. ticks: places that are labelled, all unless given.
    marked: a line's dash through each of these places. levels: values with a line across, by their names.
    """
    if not lines:
        return drawn([], colours, height=height)
    levels, at = levels or {}, float if linear else log10
    places = sorted({place for one in lines.values() for place in one.values})
    every = [value for one in lines.values() for value in one.values.values()] + [*levels.values()]
    traces = []
    for name, one in lines.items():
        values, alone = [*one.values.values()], one.dash == "marks"
        mode = "markers" if alone else "lines+markers" if one.points else "lines"
        look = {"name": name, "mode": mode, "dash": "solid" if alone else one.dash, "showlegend": one.listed}
        hover = f"{name}, %{{x:,}}{one.said}: %{{customdata}}"
        told_of = [str(told(value)) for value in values]
        traces.append(
            line([*one.values], values, getattr(colours, one.tone), hover, customdata=told_of, **look)
        )
    named = {"xref": "paper", "yanchor": "bottom"}
    axis = even_ticks(max(every), told) if linear else log_ticks(min(every), max(every), "", told)
    across = {} if even else log_axis([*ticks] or places, words, places[0], places[-1], 0.06, 0.13)
    many = sum(one.listed for one in lines.values()) > MANY
    return drawn(
        traces,
        colours,
        height=height,
        legend=NARROW if many else True,
        x={**across, "title_text": x},
        y=axis | ({"title_text": y} if y else {}),  # an empty one takes room
        shapes=[level(value, colours.muted) for value in levels.values()]
        + [upright(place, colours.muted, dash) for place, dash in (marked or {}).items()],
        annotations=[note(0.01, at(value), name, colours.muted, **named) for name, value in levels.items()],
    )
