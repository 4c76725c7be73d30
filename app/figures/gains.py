"""What fusing gains over the length: bytes and time in one chart, modelled as lines, recorded as marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.figures.base import Figure, drawn
from app.figures.colours import Palette
from app.figures.speed import mark_of_length
from app.figures.units import gain_text, length_ticks, log_ticks, times_text
from engine.studies.gains import Gain

BYTES, TIME = "bytes across HBM", "time"
LINES = {BYTES: ("o", lambda gain: gain.bytes), TIME: ("q", lambda gain: gain.seconds)}  # colour, ratio
LESS = {BYTES: "fewer", TIME: "less"}


def gains_by_length(
    modelled: Sequence[Gain], recorded: Sequence[Gain], origin: str, keys: int, colours: Palette
) -> Figure:
    """How many times less than unfused attention, both axes logarithmic; the scenario's length is marked.

    origin: where the recorded ones come from, in words.
    """
    traces = []
    for name, (tone, ratio) in LINES.items():
        traces.append(_trace(modelled, ratio, name, "modelled", getattr(colours, tone), real=False))
        if recorded:
            traces.append(_trace(recorded, ratio, name, origin, getattr(colours, tone), real=True))
    values = [value for trace in traces for value in trace["y"]] + [1.0]
    ticks = log_ticks(min(values), max(values), "")
    ticks["ticktext"] = [times_text(value) for value in ticks["tickvals"]]
    lengths = [gain.keys for gain in modelled]
    line, label = mark_of_length(keys, lengths[-1], colours)
    return drawn(
        traces,
        colours,
        height=300,
        x=length_ticks(lengths),
        y={"title_text": "times less than unfused", **ticks},
        legend={"font": {"size": 13}},
        shapes=[line, _as_much(colours)],
        annotations=[label],
    )


def _trace(
    gains: Sequence[Gain], ratio: Callable[[Gain], float], name: str, origin: str, colour: str, *, real: bool
) -> dict:
    return {
        "type": "scatter",
        "x": [gain.keys for gain in gains],
        "y": [ratio(gain) for gain in gains],
        "name": f"{name}, recorded" if real else name,
        "showlegend": not real,  # beside its line, in its colour
        "mode": "markers" if real else "lines",
        "line": {"color": colour, "width": 2.5},
        "marker": {"symbol": "diamond", "size": 11, "color": colour},
        "customdata": [gain_text(ratio(gain), LESS[name]) for gain in gains],
        "hovertemplate": f"{name}, N = %{{x:,}}, {origin}: %{{customdata}}<extra></extra>",
    }


def _as_much(colours: Palette) -> dict:
    """The line on which neither is less."""
    return {
        **{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1},
        "line": {"color": colours.muted, "width": 1, "dash": "dot"},
    }
