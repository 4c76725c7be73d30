"""Figures of the Speed page: measured, recorded and modelled over the length; gains; and rooflines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from app.figures.algorithms import implementation, look, short
from app.figures.base import Figure, drawn, line, marks
from app.figures.colours import Palette
from app.figures.curves import OVER_LENGTH, Curve, curves
from app.figures.units import digits, log_ticks, scaled, seconds_text, times_text
from engine.studies.gains import Gain
from engine.studies.survey import Roofline

MODELLED = "modelled"
METRICS = {  # what each is called, and how a number of it is said
    "speedup": ("speed-up", times_text),
    "p50": ("time", seconds_text),
    "tflops": ("FLOP/s", lambda value: scaled(value * 1e12, "FLOP/s")),
}
BYTES, TIME = "bytes across HBM", "time"
LEVELS = {"L2": ("square-open", "dash"), "HBM": ("circle-open", "solid")}  # the mark of a call, and its roof


def speed_by_length(
    groups: Sequence[tuple[str, Sequence[dict]]], metric: str, colours: Palette, mark: int | None = None
) -> Figure:
    """One of METRICS over the length: modelled dotted, what was measured as lines with marks.

    groups: (origin, rows); origin "modelled" or what a page calls a measurement. mark: the scenario's length.
    """
    lines, real = {}, any(origin != MODELLED and rows for origin, rows in groups)
    for origin, rows in groups:
        for provider in dict.fromkeys(row["provider"] for row in rows):
            own = [row for row in rows if row["provider"] == provider and row[metric]]
            values = {row["keys"]: row[metric] for row in own}
            if own and origin == MODELLED:  # beside measured lines, the dotted ones have the others' colours
                curve = Curve(values, look(provider).tone, "dot", f", {origin}", listed=not real)
                lines[short(provider)] = curve
            elif own:
                curve = Curve(values, look(provider).tone, "solid", f", {origin}", points=True)
                lines[implementation(own[0])] = curve
    title, told = METRICS[metric]
    axes = {**OVER_LENGTH, "y": title, "told": told, "linear": metric == "tflops", "height": 275}
    return curves(lines, colours, **axes, marked=mark and {mark: "dot"})


def gains_by_length(
    modelled: Sequence[Gain], recorded: Sequence[Gain], keys: int, colours: Palette
) -> Figure:
    """How many times less than unfused attention, both axes logarithmic; the scenario's length is marked."""
    lines = {}
    for name, tone, of in ((BYTES, "o", lambda gain: gain.bytes), (TIME, "q", lambda gain: gain.seconds)):
        lines[name] = Curve({gain.keys: of(gain) for gain in modelled}, tone, said=", modelled")
        if recorded:
            lines[f"{name}, recorded"] = Curve({gain.keys: of(gain) for gain in recorded}, tone, "marks")
    axes = {**OVER_LENGTH, "y": "times less than unfused", "told": times_text}
    return curves(lines, colours, **axes, marked={keys: "dot"}, levels={"as unfused": 1.0})


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
