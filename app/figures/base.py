"""What every Plotly figure shares: face, ground, margins, hover, and a zoom that stays when values change."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from app.figures.colours import Palette

Figure = dict[str, Any]  # Plotly's "data" and "layout", as plain lists and dicts
SANS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
RULES = Path(__file__).with_name("figures.css").read_text("utf-8")  # of the figures in HTML
CONFIG = {
    "displaylogo": False,
    "displayModeBar": False,
    "responsive": True,
    "scrollZoom": False,
    "doubleClick": "reset",
}
# Pixels that Plotly's automargin comes to; where it must make more room it draws the chart again.
EDGE, LEGEND, LABELS, TITLE = 8, 38, 27, 17.1  # around all; a line above; what stands below and beside
GLYPH, APART = 7.23, 12  # a character of a label beside the plot, and what surrounds the label


def drawn(
    traces: list[dict],
    colours: Palette,
    *,
    height: int,
    legend: bool | dict = True,
    x: dict | None = None,
    y: dict | None = None,
    **layout,
) -> Figure:
    """A figure of Plotly's traces with the shared layout, and what that has besides.

    height: pixels at the usual scale; fixed, so that nothing moves when values change. legend: whether a
    horizontal one stands above the plot; a dict for what it has besides. x, y: what an axis has besides the
    shared look; the title as title_text.
    """
    import plotly.io as pio

    pio.templates.default = None  # with a template, even an empty one, Plotly draws the chart again
    axes = {"xaxis": axis(colours, **(x or {})), "yaxis": axis(colours, **(y or {}))}
    shared = {
        "height": height,
        "font": {"family": SANS, "size": 13, "color": colours.ink},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": bool(legend),
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1,
            "yanchor": "bottom",
            "font": {"size": 13},
            "traceorder": "normal",
            **(legend if isinstance(legend, dict) else {}),
        },
        "hoverlabel": {
            "bgcolor": colours.panel,
            "bordercolor": colours.grid,
            "font": {"family": MONO, "size": 12, "color": colours.ink},
        },
        "uirevision": "keep",
        "datarevision": "sent once",  # Streamlit passes a chart twice, and sets up changed ones anew
        "margin": _room(**axes, legend=bool(legend)),
        **axes,
    }
    figure = {"data": _listed(traces), "layout": _merged(shared, layout)}
    return figure if colours.scale == 1 else _enlarged(figure, colours.scale)


def axis(colours: Palette, **options) -> dict:
    """One more axis in the shared look, with what it has besides; the title as title_text."""
    if "title_text" in options:
        options["title"] = {"text": options.pop("title_text")}
    shared = {
        **dict.fromkeys(("gridcolor", "linecolor", "zerolinecolor"), colours.grid),
        "tickfont": {"family": MONO, "size": 12, "color": colours.muted},
        "title": {"font": {"size": 13, "color": colours.muted}, "standoff": 8},
        "automargin": True,
    }
    return _merged(shared, options)


def line(x, y, colour: str, hover: str = "", *, width: float = 2.5, dash: str = "solid", **more) -> dict:
    """A trace of a line; `hover` is what a point says, in Plotly's terms; empty, it says nothing."""
    look = {"color": colour, "width": width, "dash": dash}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": look, **_told(hover), **more}


def marks(x, y, colour: str | list, hover: str, *, symbol="circle", size=8, edge=None, **more) -> dict:
    """A trace of marks alone, with an edge as Plotly takes one."""
    look = {"symbol": symbol, "size": size, "color": colour, **({"line": edge} if edge else {})}
    return {"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": look, **_told(hover), **more}


def _told(hover: str) -> dict:
    return {"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}


def upright(x: float, colour: str, dash: str) -> dict:
    """The shape of a line through the whole height of the plot."""
    look = {"color": colour, "width": 1, "dash": dash}
    return {"type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": look}


def level(y: float, colour: str) -> dict:
    """The shape of a dotted line through its whole width."""
    look = {"color": colour, "width": 1, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": look}


def note(x: float, y: float | str, text: str, colour: str, *, size: int = 12, **more) -> dict:
    """Words beside a place, to its right; on a logarithmic axis the place is a logarithm."""
    face = {"size": size, "color": colour}
    return {"x": x, "y": y, "text": text, "showarrow": False, "xanchor": "left", "font": face, **more}


def _listed(part):
    """The same part of a figure without arrays: Plotly takes one that it is passed again for another."""
    if isinstance(part, dict):
        return {name: _listed(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_listed(value) for value in part]
    return part.tolist() if isinstance(part, np.ndarray) else part


def _room(xaxis: dict, yaxis: dict, legend: bool) -> dict:
    """The margins that the labels take, in pixels; automargin makes more where that is not enough."""
    across, up = (TITLE if axis["title"].get("text") else 0 for axis in (xaxis, yaxis))
    low, high = yaxis.get("range", (-math.inf, math.inf))
    beside = 0  # the longest of the words at ticks that are in the axis's range
    for place, word in zip(yaxis.get("tickvals", ()), yaxis.get("ticktext", ()), strict=True):
        if low <= (math.log10(place) if yaxis.get("type") == "log" else place) <= high:
            beside = max(beside, len(word))
    return {
        "l": APART + GLYPH * beside + up if beside else EDGE,
        "r": EDGE,
        "t": LEGEND if legend else EDGE,
        "b": across + (LABELS if xaxis.get("showticklabels", True) else EDGE),
    }


def _enlarged(part, scale: float, where: str = ""):
    """The same part of a figure, which stands under that name, with all that is in pixels so much larger."""
    if not isinstance(part, dict):
        return [_enlarged(value, scale, where) for value in part] if isinstance(part, list | tuple) else part
    found = {}
    for name, value in part.items():
        places = {"size": ("font", "marker"), "width": ("line",), "height": ("layout",)}.get(
            name, ("margin",)
        )
        pixels = where.endswith(places) or name in ("entrywidth", "standoff")
        number = pixels and isinstance(value, int | float)
        found[name] = value * scale if number else _enlarged(value, scale, name)
    return found


def _merged(base: dict, more: dict) -> dict:
    """Both, the second winning, nested dicts merged likewise."""
    both = {**base, **more}
    for name in base.keys() & more.keys():
        if isinstance(base[name], dict) and isinstance(more[name], dict):
            both[name] = _merged(base[name], more[name])
    return both
