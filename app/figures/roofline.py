"""The roofline of a GPU with points under it: modelled, and measured, which may be of another machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from app.figures.base import drawn
from app.figures.colours import Palette
from app.figures.speed import label, marks
from app.figures.units import scaled
from engine.roofline import Roofline

if TYPE_CHECKING:
    import plotly.graph_objects as go


def roofline(
    roof: Roofline,
    name: str,
    modelled: Sequence[dict],
    measured: Sequence[dict],
    keys: int,
    colours: Palette,
) -> go.Figure:
    """FLOP/s over FLOP a DRAM byte, both axes logarithmic; rows have intensity and tflops.

    Modelled points are open; those at `keys`, the scenario's length, are filled.
    """
    everything = [*modelled, *measured]
    low = min([1.0, *(row["intensity"] for row in everything)]) / 2
    high = max([10 * roof.ridge, *(row["intensity"] for row in everything)]) * 2
    x = np.array([low, roof.ridge, high])
    edge = {
        "type": "scatter",
        "x": x.tolist(),
        "y": roof.attainable(x).tolist(),
        "mode": "lines",
        "name": f"{name}, datasheet",
        "line": {"color": colours.ink, "width": 2},
        "hovertemplate": "%{x:.3g} FLOP/B: %{y:.3s}FLOP/s<extra></extra>",
    }
    groups = ((modelled, "modelled"), (measured, "measured here"))
    points = [_points(rows, origin, keys, colours) for rows, origin in groups if rows]
    least = min([row["tflops"] * 1e12 for row in everything] + [roof.peak_flops / 1e3])
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(roof.peak_flops)) + 1)
    values = [10.0**power for power in powers][:: max(1, len(powers) // 6)]
    return drawn(
        [edge, *points],
        colours,
        height=250,
        x={"type": "log", "title_text": "FLOP per DRAM byte, modelled", "dtick": 1, "tickformat": ","},
        y={"type": "log", "tickvals": values, "ticktext": [scaled(value, "FLOP/s") for value in values]},
    )


def _points(rows: Sequence[dict], origin: str, keys: int, colours: Palette) -> dict:
    real = origin != "modelled"
    return {
        "type": "scatter",
        "x": [row["intensity"] for row in rows],
        "y": [row["tflops"] * 1e12 for row in rows],
        "mode": "markers",
        "name": origin,
        "marker": {
            "symbol": [
                "circle" if real else "diamond" if row["keys"] == keys else "diamond-open" for row in rows
            ],
            "size": 8,
            "color": [marks(row["provider"], colours)[0] for row in rows],
            "line": {"width": 0 if real else 2},
        },
        "text": [f"{label(row)}, N = {row['keys']:,}" for row in rows],
        "hovertemplate": f"%{{text}}, {origin}: %{{y:.3s}}FLOP/s at %{{x:.3g}} FLOP/B<extra></extra>",
    }
