"""The roofline of a GPU with points under it: modelled, and measured, which may be of another machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from app.figures.base import finish
from app.figures.colours import Palette
from app.figures.speed import LABELS, marks
from app.figures.units import scaled
from engine.roofline import Roofline


def roofline(
    roof: Roofline, name: str, modelled: Sequence[dict], measured: Sequence[dict], colours: Palette
) -> go.Figure:
    """FLOP/s over FLOP a DRAM byte, both axes logarithmic; rows have intensity and tflops."""
    everything = [*modelled, *measured]
    low = min([1.0, *(row["intensity"] for row in everything)]) / 2
    high = max([10 * roof.ridge, *(row["intensity"] for row in everything)]) * 2
    x = np.array([low, roof.ridge, high])
    figure = go.Figure(
        go.Scatter(
            x=x,
            y=roof.attainable(x),
            mode="lines",
            name=f"{name}, datasheet",
            line={"color": colours.ink, "width": 2},
            hovertemplate="%{x:.3g} FLOP/B: %{y:.3s}FLOP/s<extra></extra>",
        )
    )
    for rows, origin, symbol in ((modelled, "modelled", "diamond-open"), (measured, "measured", "circle")):
        if rows:
            figure.add_scatter(
                x=[row["intensity"] for row in rows],
                y=[row["tflops"] * 1e12 for row in rows],
                mode="markers",
                name=origin,
                marker={
                    "symbol": symbol,
                    "size": 8,
                    "color": [marks(row["provider"], colours)[0] for row in rows],
                    "line": {"width": 2 if origin == "modelled" else 0},
                },
                text=[f"{LABELS[row['provider']]}, N = {row['keys']:,}" for row in rows],
                hovertemplate=f"%{{text}}, {origin}: %{{y:.3s}}FLOP/s at %{{x:.3g}} FLOP/B<extra></extra>",
            )
    finish(figure, colours, height=330)
    least = min([row["tflops"] * 1e12 for row in everything] + [roof.peak_flops / 1e3])
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(roof.peak_flops)) + 1)
    values = [10.0**power for power in powers][:: max(1, len(powers) // 6)]
    figure.update_xaxes(type="log", title_text="FLOP per DRAM byte, modelled", dtick=1, tickformat=",")
    figure.update_yaxes(type="log", tickvals=values, ticktext=[scaled(value, "FLOP/s") for value in values])
    return figure
