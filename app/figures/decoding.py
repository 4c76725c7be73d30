"""Figures of the Decoding page: blocks on SMs, time over splits, and the parts of a row as they merge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from app.figures.base import Figure, axis, bars, drawn, line, marks, note, upright
from app.figures.colours import Palette
from app.figures.units import even_ticks, log_axis, log_ticks, scaled, seconds_text
from engine.model.timeline import MODELLED
from engine.studies.decoding import Parts

FEW = 16  # splits, each of which has its number on the axis
METRICS = TIME, RATE = "time", "bytes/s"
TEXTS: dict[str, Callable[[float], str]] = {TIME: seconds_text, RATE: lambda value: scaled(value, "B/s")}


def sms(blocks: np.ndarray, colours: Palette) -> str:
    """One square per SM as HTML: how many blocks it runs; hatched where it has none."""
    busy = f"background:color-mix(in srgb, {colours.k} 45%, {colours.panel});color:{colours.ink}"
    stripes = f"{colours.muted} 0 1px, transparent 1px 5px"
    idle = f"background:repeating-linear-gradient(135deg, {stripes});border:1px solid {colours.grid}"
    squares = "".join(f"<i style='{busy if n else idle}'>{n if n else ''}</i>" for n in blocks.tolist())
    label = f"{int((blocks > 0).sum())} of {len(blocks)} SMs have a block"
    return f"<div class='sms' role='img' aria-label='{escape(label)}'>{squares}</div>"


@dataclass(frozen=True)
class Line:
    """One curve over the number of splits.

    Attributes:
        name, origin: what the legend and the hover say; what is modelled is dotted, and without marks.
        splits: [points]; none: a level, where the implementation chooses.
        points: seconds, and bytes of K and V per second.
    """

    name: str
    origin: str
    colour: str
    splits: Sequence[int]
    points: Sequence[tuple[float, float]]

    def values(self, metric: str) -> list[float]:
        """[points] in a metric."""
        return [point[METRICS.index(metric)] for point in self.points]

    @property
    def dash(self) -> str:
        """How it is drawn."""
        return "dot" if self.origin == MODELLED else "solid" if self.splits else "dash"


def speed_by_splits(
    lines: Sequence[Line], metric: str, splits: Sequence[int], mark: int | None, colours: Palette
) -> Figure:
    """Time (both axes logarithmic) or bytes a second (from 0) over the number of splits."""
    low, high, traces, every = min(splits), max(splits), [], []
    for one in lines:
        values = one.values(metric) * (1 if one.splits else 2)
        where, plain = "%{x} splits, " if one.splits else "", one.dash != "solid"
        told = f"{escape(one.name)}, {where}{escape(one.origin)}: %{{customdata}}"
        look = {
            "width": 1.5 if plain else 2.5,
            "dash": one.dash,
            "mode": "lines" if plain else "lines+markers",
        }
        look |= {"name": one.name, "marker": {"size": 7}, "customdata": [*map(TEXTS[metric], values)]}
        traces.append(line([*one.splits] or [low, high], values, one.colour, told, **look))
        every += values
    times = log_ticks(min(every) / 1.2, max(every) * 1.2, "s", seconds_text)
    powers = [2**power for power in range(high.bit_length()) if low <= 2**power <= high]
    return drawn(
        traces,
        colours,
        height=250,
        x=log_axis(powers, str, low, high, 0.05, title_text="number of splits"),
        y=times if metric == TIME else even_ticks(max(every), TEXTS[metric]),
        legend=False,
        shapes=[upright(mark, colours.muted)] if mark else [],
    )


def key(lines: Sequence[Line], metric: str) -> str:
    """What the lines are, as HTML; levels with their value."""
    styles, entries = {"dot": "dotted", "dash": "dashed"}, []
    for one in lines:
        value = "" if one.splits else f" <b>{TEXTS[metric](one.values(metric)[0])}</b>"
        mark = f"<i style='border-top:2.5px {styles.get(one.dash, one.dash)} {one.colour}'></i>"
        entries.append(f"<span>{mark}{escape(one.name)}{value}</span>")
    return f"<div class='splits-key'>{''.join(entries)}</div>"


def merge(parts: Parts, step: int, colours: Palette) -> Figure:
    """What each part counts for after some have been merged: lse with the maximum so far, and weights."""
    lse, steps = np.where(np.isfinite(parts.lse), parts.lse, np.nan), parts.steps
    splits, (low, high) = len(lse), (np.nanmin(lse), np.nanmax(lse))
    space, split = max(0.5, 0.25 * (high - low)), np.arange(1, splits + 1)
    base = low - space
    opacity = np.where(split == step, 1.0, np.where(split < step, 0.6, 0.22))
    now = steps.weights[step - 1] if step else np.zeros(splits)
    maxima = np.where(np.isfinite(steps.m), steps.m, np.nan)[:step]
    most = line(split[:step], maxima, colours.ink, "m %{y:.4g}", width=2)
    most["line"]["shape"] = "hvh"
    end = {"symbol": "line-ew", "edge": {"color": colours.ink, "width": 2}, "yaxis": "y2"}
    traces = [
        bars(
            *(split, lse - base, colours.statistics, "split %{x}: lse %{customdata:.4g}"),
            **{"opacity": opacity, "base": base, "customdata": lse},
        ),
        most,
        bars(split, now, colours.s, "split %{x}: weight now %{y:.4g}", opacity=opacity, yaxis="y2"),
        marks(split, steps.final, colours.ink, "in the end %{y:.4g}", **end),
    ]
    titles = [
        note(0, y, f'<b style="color:{colour}">{of}</b> · — {line}', colours.ink, size=13,
             **{"xref": "paper", "yref": "paper", "yanchor": "bottom"})
        for y, of, colour, line in (
            (0.94, "lse of each split", colours.statistics, "m, the largest so far"),
            (0.43, "weight now, exp(lse − m)", colours.s, "final"),
        )
    ]  # fmt: skip
    look = {"automargin": False}
    weights = {"domain": (0, 0.42), "range": [0, 1.06], "tickvals": [0, 0.5, 1], "anchor": "x", **look}
    return drawn(
        traces,
        colours,
        height=330,
        legend=False,
        x={
            "title_text": "split",
            "anchor": "y2",
            "range": [0.4, splits + 0.6],
            "showgrid": False,
            **({"tickvals": [*range(1, splits + 1)]} if splits <= FEW else {}),  # whole by itself for more
        },
        y={"domain": (0.58, 0.93), "range": [base, high + space], "title_text": "lse", **look},
        yaxis2=axis(colours, title_text="weight", **weights),
        annotations=titles,
        barmode="overlay",
        margin={"l": 58, "r": 8, "t": 8, "b": 44},
    )
