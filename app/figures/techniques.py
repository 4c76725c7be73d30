"""From unfused attention to FlashAttention-3: what each technique adds or saves, as a waterfall of time."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from textwrap import wrap

from app.figures.base import SANS, Figure, drawn, line, note
from app.figures.colours import Palette
from app.figures.units import digits, log_ticks, seconds_text
from engine.studies.techniques import Variant

WIDTH = 13  # pixels of a bar
WORDS = 120  # pixels to the right of the axis, for the words beside the longest bar
NAME = {"size": 13, "family": SANS}
NAME_LENGTH = 20  # characters of a line of a name: a phone has room for no more beside the bars


def waterfall(names: Sequence[str], steps: Sequence[Variant], colours: Palette) -> Figure:
    """Modelled time, logarithmic, so that a bar's length is a factor; the first step has no name of its own.

    Args:
        names: of the techniques, one for every step after the first.
        steps: of `ladder`, one technique more each.
    """
    labels = ["unfused", *("<br>".join(wrap(f"+ {name}", NAME_LENGTH)) for name in names)]
    times = [step.seconds for step in steps if step.seconds is not None]
    traces, notes, before = [], [], steps[0].seconds
    for label, step in zip(labels, steps, strict=True):
        now = step.seconds if step.seconds is not None else before
        traces.append(_bar(label, before, now, step, colours))
        notes.append(_note(label, before, step, colours))
        before = now
    axis = log_ticks(min(times), max(times), "s")
    low, high = axis["range"]
    ticks = [value for value in axis["tickvals"] if low <= log10(value) <= high and f"{value:e}"[0] == "1"]
    axis |= {"tickvals": ticks, "ticktext": [seconds_text(value) for value in ticks], "tickangle": 0}
    return drawn(
        traces,
        colours,
        height=36 * len(steps) + 40,
        legend=False,
        x=axis,
        y={"type": "category", "autorange": "reversed", "categoryarray": labels, "tickfont": NAME},
        annotations=notes,
        margin={"r": WORDS},
    )


def _bar(label: str, before: float, now: float, step: Variant, colours: Palette) -> dict:
    colour = colours.muted if now == before else colours.good if now < before else colours.bad
    end = {"size": [0, WIDTH], "symbol": "line-ns", "line": {"color": colours.ink, "width": 2.5}}
    words = step.misfit or f"{seconds_text(now)}, modelled"
    look = {"width": WIDTH, "mode": "lines+markers", "marker": end}
    return line([before, now], [label, label], colour, words, **look)


def _note(label: str, before: float, step: Variant, colours: Palette) -> dict:
    """The time, and by what it divides or multiplies that of the step before, to the right of the bar."""
    if step.seconds is None:
        text, at = "does not fit", before
    else:
        at, text = max(before, step.seconds), seconds_text(step.seconds)
        if step.seconds < before:
            text += f" ÷ {digits(before / step.seconds)}"
        elif step.seconds > before:
            text += f" × {digits(step.seconds / before)}"
    return note(log10(at), label, text, colours.ink, size=13, xshift=12)
