"""Figures of the Speed page over the length: measured, recorded and modelled, and what fusing gains."""

from collections.abc import Sequence

from app.figures.algorithms import implementation, look, short
from app.figures.base import Figure
from app.figures.colours import Palette
from app.figures.curves import OVER_LENGTH, Curve, curves
from app.figures.units import scaled, seconds_text, times_text
from engine.studies.gains import Gain

MODELLED = "modelled"
METRICS = {  # what each is called, and how a number of it is said
    "speedup": ("speed-up", times_text),
    "p50": ("time", seconds_text),
    "tflops": ("FLOP/s", lambda value: scaled(value * 1e12, "FLOP/s")),
}
BYTES, TIME = "bytes across HBM", "time"


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
