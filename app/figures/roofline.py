"""The roofline of a GPU with calls under it: modelled, recorded, and measured, maybe on another machine."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from app.figures.algorithms import implementation, look
from app.figures.base import Figure, drawn, line, marks
from app.figures.colours import Palette
from app.figures.units import digits, log_ticks
from engine.studies.survey import Roofline

LEVELS = {"L2": ("square-open", "dash"), "HBM": ("circle-open", "solid")}  # the mark of a call, and its roof


def roofline(roof: Roofline, calls: Mapping[str, Sequence[dict]], title: str, colours: Palette) -> Figure:
    """FLOP/s over FLOP per byte, both axes logarithmic.

    calls: by where they are from, rows with tflops, and their intensity by "HBM", and maybe by "L2", to which
    a line joins it; a row that is `filled` stands out. title: of the intensity.
    """
    rows = [row for own in calls.values() for row in own]
    levels = {name: each for name, each in LEVELS.items() if any(name in row for row in rows)}
    places = [row[name] for row in rows for name in levels if name in row]
    ends = min([1.0, *places]) / 2, max([10 * roof.ridge, *places]) * 2
    traces = []
    for name, (_, dash) in levels.items():
        own = replace(roof, bytes_per_second=roof.cache_bytes_per_second) if name == "L2" else roof
        x, words = np.array([ends[0], own.ridge, ends[1]]), "%{x:.3g} FLOP/B: %{y:.3s}FLOP/s"
        traces.append(
            line(x, own.attainable(x), colours.ink, words, name=f"{name}, peak", width=2, dash=dash)
        )
    x = [place for row in rows if "L2" in row for place in (row["L2"], row["HBM"], None)]
    y = [rate for row in rows if "L2" in row for rate in (*[row["tflops"] * 1e12] * 2, None)]
    traces += [line(x, y, colours.grid, width=1.5, showlegend=False)] * bool(x)
    for origin, own in calls.items():
        for name, (symbol, _) in levels.items() if own else ():
            traces.append(
                marks(
                    [row[name] for row in own],
                    [row["tflops"] * 1e12 for row in own],
                    [look(row["provider"]).colour(colours) for row in own],
                    f"%{{text}}, {origin}: %{{y:.3s}}FLOP/s at %{{x:.3g}} FLOP/B of {name}",
                    symbol=[symbol.removesuffix("-open" * bool(row.get("filled"))) for row in own],
                    edge={"width": 2},
                    text=[f"{implementation(row)}, N = {row['keys']:,}" for row in own],
                    name=origin if len(levels) == 1 else f"{name} bytes",
                )
            )
    least = min([1e12 * row["tflops"] for row in rows] + [roof.peak_flops / 1e3])
    across = log_ticks(*ends, "", digits) | {"title_text": title}
    return drawn(traces, colours, height=250, x=across, y=log_ticks(least, roof.peak_flops, "FLOP/s"))
