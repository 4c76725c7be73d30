"""A chart of this project as SVG, without a browser: lines and marks on one pair of axes."""

import math
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from app.figures.base import MONO, SANS, Figure
from app.gallery.html_page import sideways

SHEETS = {"wide": (720, 12), "narrow": (360, 14)}  # px of a drawing's width and of its type: for a phone too
LEGEND_LINE, GLYPH = 20, 0.62  # px; of the type's height, a character's width
RIGHT, BOTTOM, TOP = 14, 46, 12
DASHES = {"dot": "2 4", "dash": "8 5", "dashdot": "8 4 2 4", "longdash": "12 5"}


@dataclass(frozen=True)
class Axis:
    """One axis of Plotly's, with its range and its labels, and where its ends are in pixels."""

    layout: dict[str, Any]
    first: float
    last: float

    def at(self, value: float) -> float:
        """The pixel of a value."""
        value = math.log10(value) if self.layout.get("type") == "log" else value
        low, high = self.layout["range"]
        return self.first + (value - low) / (high - low) * (self.last - self.first)

    def of(self, shape: dict, name: str, axis: str) -> float:
        """The pixel of an end of a shape; of "paper" it is a share of the axis."""
        if shape.get(f"{axis}ref") == "paper":
            return self.first + shape[name] * (self.last - self.first)
        return self.at(shape[name])

    def ticks(self) -> list[tuple[float, str]]:
        """(pixel, words) of every label within the axis."""
        at = zip(map(self.at, self.layout["tickvals"]), self.layout["ticktext"], strict=True)
        low, high = sorted((self.first, self.last))
        return [(pixel, words) for pixel, words in at if low - 1 <= pixel <= high + 1]


def chart(figure: Figure, alt: str) -> str:
    """A Plotly figure of scatter traces as SVG that scales with the page: drawn once more for a phone's."""
    return sideways("".join(_drawn(figure, alt, name) for name in SHEETS))


def _drawn(figure: Figure, alt: str, sheet: str) -> str:
    width, size = SHEETS[sheet]
    glyph = GLYPH * size
    layout, traces = figure["layout"], figure["data"]
    y = Axis(layout["yaxis"], layout["height"] - BOTTOM, 0)
    left = 12 + glyph * max((len(words) for _, words in y.ticks()), default=0)
    left += LEGEND_LINE * bool(layout["yaxis"].get("title", {}).get("text"))
    legend = _legend(traces, left, width, glyph) if layout.get("showlegend") else []
    top = TOP + LEGEND_LINE * (1 + max((line for _, line, _ in legend), default=-1))
    height = layout["height"] + top
    x = Axis(layout["xaxis"], left, width - RIGHT)
    y = replace(y, first=height - BOTTOM, last=top)
    parts = [*_grid(x, y, layout, glyph), *(_shape(shape, x, y) for shape in layout.get("shapes", ()))]
    for trace in traces:
        parts += _trace(trace, x, y)
    parts += _key(legend, layout)
    look = {"viewBox": f"0 0 {width} {_n(height)}", "role": "img", "aria_label": alt}
    return _tag("svg", "".join(parts), class_=sheet, **look, font_family=SANS, font_size=size)


def _grid(x: Axis, y: Axis, layout: dict, glyph: float) -> list[str]:
    """Lines, numbers and titles of both axes; of the numbers below those that have room."""
    parts, ink = [], {"fill": layout["xaxis"]["tickfont"]["color"], "font_family": MONO}
    low, high, free = y.first, y.last, -math.inf
    for pixel, words in x.ticks():
        parts.append(_line(pixel, low, pixel, high, layout["xaxis"]["gridcolor"], 1))
        if pixel - glyph * len(words) / 2 < free:
            continue
        free = pixel + glyph * (len(words) / 2 + 1)
        parts.append(_text(pixel, low + 16, words, text_anchor="middle", **ink))
    for pixel, words in y.ticks():
        parts.append(_line(x.first, pixel, x.last, pixel, layout["yaxis"]["gridcolor"], 1))
        parts.append(_text(x.first - 6, pixel + 4, words, text_anchor="end", **ink))
    across, along = (layout[axis].get("title", {}).get("text") for axis in ("xaxis", "yaxis"))
    ink = {"fill": layout["xaxis"]["title"]["font"]["color"], "text_anchor": "middle"}
    if across:
        parts.append(_text((x.first + x.last) / 2, low + 36, across, **ink))
    if along:
        turned = f"translate(14 {_n((low + high) / 2)}) rotate(-90)"
        parts.append(_text(0, 0, along, transform=turned, **ink))
    return parts


def _trace(trace: dict, x: Axis, y: Axis) -> list[str]:
    """A line and its marks, each saying its value where it is pointed at."""
    points = [
        None if a is None or b is None else (x.at(a), y.at(b))
        for a, b in zip(trace["x"], trace["y"], strict=True)
    ]
    mode, line, path, before = trace.get("mode", "lines"), trace.get("line", {}), "", None
    for point in points:
        path += f"{'L' if before else 'M'}{_n(point[0])} {_n(point[1])}" if point else " "
        before = point
    drawn = [_tag("path", d=path, fill="none", **_stroke(line))] if "lines" in mode else []
    return drawn + [_mark(trace, n, point) for n, point in enumerate(points) if point and "markers" in mode]


def _mark(trace: dict, n: int, point: tuple[float, float]) -> str:
    """One mark with the words that Plotly shows for it."""
    mark = trace.get("marker", {})
    colour = _nth(mark.get("color", trace.get("line", {}).get("color")), n)
    symbol, size = _nth(mark.get("symbol", "circle"), n), mark.get("size", 7) / 2
    x, y = point
    told = next((trace[name][n] for name in ("customdata", "text") if name in trace), "")
    told = told if isinstance(told, str) else ", ".join(told)
    title = _tag("title", escape(f"{trace.get('name', '')}: {told}")) if told else ""
    hollow = {"fill": "none", "stroke": colour, "stroke_width": 2}
    look = hollow if "open" in symbol else {"fill": colour}
    if symbol.startswith("square"):
        return _tag("rect", title, x=x - size, y=y - size, width=2 * size, height=2 * size, **look)
    return _tag("circle", title, cx=x, cy=y, r=size, **look)


def _shape(shape: dict, x: Axis, y: Axis) -> str:
    """A line across the plot."""
    ends = {"x1": x.of(shape, "x0", "x"), "y1": y.of(shape, "y0", "y")}
    return _tag(
        "line", **ends, x2=x.of(shape, "x1", "x"), y2=y.of(shape, "y1", "y"), **_stroke(shape["line"])
    )


def _legend(traces: list[dict], left: float, width: float, glyph: float) -> list[tuple[dict, int, float]]:
    """Named traces with the line and the place at which each stands above the plot."""
    placed, line, at = [], 0, left
    for trace in traces:
        if not trace.get("name") or trace.get("showlegend") is False:
            continue
        wide = 44 + glyph * len(trace["name"])
        if at + wide > width and at > left:
            line, at = line + 1, left
        placed.append((trace, line, at))
        at += wide
    return placed


def _key(legend: list[tuple[dict, int, float]], layout: dict) -> list[str]:
    """Each entry: a piece of its line or its mark, and its name."""
    parts = []
    for trace, line, at in legend:
        y = TOP + LEGEND_LINE * line
        if "lines" in trace.get("mode", "lines"):
            parts.append(_tag("line", x1=at, y1=y, x2=at + 24, y2=y, **_stroke(trace["line"])))
        else:
            parts.append(_mark({**trace, "customdata": [""], "name": ""}, 0, (at + 12, y)))
        parts.append(_text(at + 30, y + 4, trace["name"], fill=layout["font"]["color"]))
    return parts


def _stroke(line: dict) -> dict[str, Any]:
    """How a line of Plotly's is drawn."""
    dash = DASHES.get(line.get("dash", ""))
    return {"stroke": line["color"], "stroke_width": line.get("width", 2), "stroke_dasharray": dash}


def _line(x0: float, y0: float, x1: float, y1: float, colour: str, width: float) -> str:
    return _tag("line", x1=x0, y1=y0, x2=x1, y2=y1, stroke=colour, stroke_width=width)


def _text(x: float, y: float, words: str, **look: Any) -> str:
    return _tag("text", escape(words), x=x, y=y, **look)


def _tag(name: str, held: str = "", **values: Any) -> str:
    """An element with what it holds; values that are None are left out."""
    given = {key.rstrip("_").replace("_", "-"): value for key, value in values.items() if value is not None}
    told = "".join(
        f' {key}="{escape(value if isinstance(value, str) else _n(value))}"' for key, value in given.items()
    )
    return f"<{name}{told}>{held}</{name}>"


def _nth(value: Any, n: int) -> Any:
    return value[n] if isinstance(value, list | tuple) else value


def _n(value: float) -> str:
    """A number, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
