"""The roofline of a GPU with points under it: modelled, and measured, which may be of another machine."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.figures import algorithms
from app.figures.base import Figure, drawn, line, marks
from app.figures.colours import Palette
from app.figures.units import scaled
from engine.studies.comparison import Roofline

LEVELS = {"L2": "square-open", "HBM": "circle-open"}  # with the mark of each


def roofline(
    roof: Roofline, name: str, modelled: Sequence[dict], measured: Sequence[dict], keys: int, colours: Palette
) -> Figure:
    """FLOP/s over FLOP a DRAM byte, both axes logarithmic; rows have intensity and tflops.

    Modelled points are open; those at `keys`, the scenario's length, are filled.
    """
    everything = [*modelled, *measured]
    low = min([1.0, *(row["intensity"] for row in everything)]) / 2
    high = max([10 * roof.ridge, *(row["intensity"] for row in everything)]) * 2
    traces = [_edge(roof, f"{name}, datasheet", (low, high), colours)]
    for rows, origin in ((modelled, "modelled"), (measured, "measured here")):
        real, x = origin != "modelled", [row["intensity"] for row in rows]
        symbols = ["circle" if real else "diamond" if row["keys"] == keys else "diamond-open" for row in rows]
        look = {"name": origin, "symbol": symbols, "edge": {"width": 0 if real else 2}}
        traces += [_calls(rows, x, origin, "", colours, **look)] if rows else []
    return _under(traces, "FLOP per DRAM byte, modelled", everything, roof, colours)


def both_levels(roof: Roofline, rows: Sequence[dict], origin: str, colours: Palette) -> Figure:
    """FLOP/s over FLOP a byte between L2 and the SMs and a byte of DRAM, a line joining the two of a call.

    rows have tflops, and an intensity "L2" and "HBM".
    """
    ends = min(row["L2"] for row in rows) / 4, max(row["HBM"] for row in rows) * 4
    l2 = replace(roof, bytes_per_second=roof.cache_bytes_per_second)
    edges = [
        _edge(l2, "L2 to SMs, peak", ends, colours, "dash"),
        _edge(roof, "HBM, peak", ends, colours),
    ]
    x = [x for row in rows for x in (row["L2"], row["HBM"], None)]
    y = [y for row in rows for y in (*[row["tflops"] * 1e12] * 2, None)]
    joins = line(x, y, colours.grid, width=1.5, showlegend=False)
    points = [
        _calls(rows, [row[level] for row in rows], origin, f" of {level}", colours,
               name=f"{level} bytes", symbol=symbol, edge={"width": 2})
        for level, symbol in LEVELS.items()
    ]  # fmt: skip
    return _under([*edges, joins, *points], "FLOP per byte, recorded", rows, roof, colours)


def _under(traces: list[dict], title: str, rows: Sequence[dict], roof: Roofline, colours: Palette) -> Figure:
    """A figure with both axes logarithmic, high enough for the roof."""
    least = min([1e12 * row["tflops"] for row in rows] + [roof.peak_flops / 1e3])
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(roof.peak_flops)) + 1)
    values = [10.0**power for power in powers][:: max(1, len(powers) // 6)]
    return drawn(
        traces,
        colours,
        height=250,
        x={"type": "log", "title_text": title, "dtick": 1, "tickformat": ","},
        y={"type": "log", "tickvals": values, "ticktext": [scaled(value, "FLOP/s") for value in values]},
    )


def _edge(
    roof: Roofline, name: str, ends: tuple[float, float], colours: Palette, dash: str = "solid"
) -> dict:
    """A roof from one intensity to another."""
    x = np.array([ends[0], roof.ridge, ends[1]])
    words = "%{x:.3g} FLOP/B: %{y:.3s}FLOP/s"
    return line(x, roof.attainable(x), colours.ink, words, name=name, width=2, dash=dash)


def _calls(rows: Sequence[dict], x: list[float], origin: str, level: str, colours: Palette, **look) -> dict:
    """Marks at the rate of each call, in its implementation's colour."""
    return marks(
        x,
        [row["tflops"] * 1e12 for row in rows],
        [algorithms.look(row["provider"]).colour(colours) for row in rows],
        f"%{{text}}, {origin}: %{{y:.3s}}FLOP/s at %{{x:.3g}} FLOP/B{level}",
        text=[f"{algorithms.implementation(row)}, N = {row['keys']:,}" for row in rows],
        **look,
    )
