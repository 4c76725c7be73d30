"""Figures of the FlashAttention-3 page: time technique by technique, and FP8's error against its speed."""

from collections.abc import Sequence
from math import ceil, floor, log10
from textwrap import wrap

from app.figures.base import SANS, Figure, drawn, line, marks, note
from app.figures.colours import Palette
from app.figures.units import digits, log_axis, log_ticks, seconds_text, share_text
from engine.recordings.timing import Fp8Timing
from engine.studies.techniques import Variant

WIDTH = 13  # pixels of a bar of the waterfall
WORDS = 120  # pixels to the right of the axis, for the words beside the longest bar
LONGEST_NAME = 20  # characters of a line of a name: a phone has room for no more beside the bars
NAMES = {
    "float16": "float16",
    "tensor": "FP8, one scale per tensor",
    "block": "FP8, scales by block",
    "rotated": "FP8, by block, rotated",
}
LOOKS = {  # their colours, at the mark with which error the name stands, and where: FP8's lie close together
    "float16": ("muted", max, {"xanchor": "left", "xshift": 12, "yshift": 0}),
    "tensor": ("bad", max, {"xanchor": "left", "xshift": -6, "yshift": 20}),
    "block": ("k", max, {"xanchor": "left", "xshift": 12, "yshift": 8}),
    "rotated": ("good", min, {"xanchor": "center", "xshift": 0, "yshift": -18}),
}
INPUTS = {"normal": ("normal inputs", "circle"), "outliers": ("inputs with outliers", "diamond-open")}
ROOM = 0.15  # of the speeds' extent, beside the outermost marks; more on the right, for a name


def waterfall(names: Sequence[str], steps: Sequence[Variant], colours: Palette) -> Figure:
    """Modelled time, logarithmic, so that a bar's length is a factor; the first step has no name of its own.

    names: of the techniques, one for every step after the first. steps: one technique more each.
    """
    labels = ["unfused", *("<br>".join(wrap(f"+ {name}", LONGEST_NAME)) for name in names)]
    times = [step.seconds for step in steps if step.seconds is not None]
    traces, notes, before = [], [], steps[0].seconds
    end = {"size": [0, WIDTH], "symbol": "line-ns", "line": {"color": colours.ink, "width": 2.5}}
    for label, step in zip(labels, steps, strict=True):
        now = step.seconds if step.seconds is not None else before
        colour = colours.muted if now == before else colours.good if now < before else colours.bad
        words = step.misfit or f"{seconds_text(now)}, modelled"
        look = {"width": WIDTH, "mode": "lines+markers", "marker": end}
        traces.append(line([before, now], [label, label], colour, words, **look))
        text = "does not fit" if step.seconds is None else seconds_text(now)
        if now != before:  # by what it divides or multiplies the time of the step before
            text += f" ÷ {digits(before / now)}" if now < before else f" × {digits(now / before)}"
        notes.append(note(log10(max(before, now)), label, text, colours.ink, size=13, xshift=12))
        before = now
    axis = log_ticks(min(times), max(times), "s")
    low, high = axis["range"]
    ticks = [value for value in axis["tickvals"] if low <= log10(value) <= high and f"{value:e}"[0] == "1"]
    axis |= {"tickvals": ticks, "ticktext": [seconds_text(value) for value in ticks], "tickangle": 0}
    face = {"size": 13, "family": SANS}
    return drawn(
        traces,
        colours,
        height=36 * len(steps) + 40,
        legend=False,
        x=axis,
        y={"type": "category", "autorange": "reversed", "categoryarray": labels, "tickfont": face},
        annotations=notes,
        margin={"r": WORDS},
    )


def error_by_speed(rows: Sequence[Fp8Timing], origin: str, colours: Palette) -> Figure:
    """Error of O, logarithmic, over TFLOP/s; a line joins the same numbers on other inputs.

    origin: where the rows come from, in words.
    """
    timed, traces, names = [row for row in rows if row.times], [], []
    tones = {numbers: getattr(colours, look[0]) for numbers, look in LOOKS.items()}
    for numbers, (_, side, place) in LOOKS.items():
        x, y = _places([row for row in timed if row.numbers == numbers])
        traces.append(line(x, y, tones[numbers], width=1.5, dash="dot", showlegend=False))
        if x:
            error, speed = side(zip(y, x, strict=True))
            names.append(note(speed, log10(error), NAMES[numbers], tones[numbers], size=13, **place))
    for inputs, (name, symbol) in INPUTS.items():
        found = [row for row in timed if row.inputs == inputs]
        own = [tones[row.numbers] for row in found]
        words = f"%{{customdata[0]}}, {name}, {origin}: %{{x:.0f}} TFLOP/s, off by %{{customdata[1]}}"
        look = {"name": name, "symbol": symbol, "size": 12, "edge": {"width": 2, "color": own}}
        told = [[NAMES[row.numbers], share_text(row.relative_error, 2)] for row in found]
        traces.append(marks(*_places(found), own, words, **look, customdata=told))
    speeds, errors = _places(timed)
    powers = range(floor(log10(min(errors))), ceil(log10(max(errors))) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 3)]
    room = ROOM * (max(speeds) - min(speeds) or max(speeds))
    axis = log_axis(ticks, lambda tick: f"{100 * tick:g}%", min(errors) / 2, max(errors) * 4, 0)
    ends = [min(speeds) - room, max(speeds) + 4 * room]
    return drawn(
        traces,
        colours,
        height=300,
        x={"title_text": "TFLOP/s, quantising included", "range": ends},
        y={"title_text": "error of O, per cent of O", **axis},
        annotations=names,
    )


def _places(rows: Sequence[Fp8Timing]) -> tuple[list[float], list[float]]:
    return [row.tflops for row in rows], [row.relative_error for row in rows]
