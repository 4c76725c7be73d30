"""What fusing gains over the length: bytes and time in one chart, modelled as lines, recorded as marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from app.figures.base import Figure, level, line, marks, over_length
from app.figures.colours import Palette
from app.figures.units import gain_text, log_ticks, times_text
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
    ticks = log_ticks(min(values), max(values), "", times_text)
    return over_length(
        traces,
        [gain.keys for gain in modelled],
        keys,
        colours,
        height=300,
        y={"title_text": "times less than unfused", **ticks},
        legend={"font": {"size": 13}},
        shapes=[level(1, colours.muted)],  # on which neither is less
    )


def _trace(
    gains: Sequence[Gain], ratio: Callable[[Gain], float], name: str, origin: str, colour: str, *, real: bool
) -> dict:
    draw = partial(marks, symbol="diamond", size=11) if real else line
    return draw(
        [gain.keys for gain in gains],
        [ratio(gain) for gain in gains],
        colour,
        f"{name}, N = %{{x:,}}, {origin}: %{{customdata}}",
        name=f"{name}, recorded" if real else name,
        showlegend=not real,  # beside its line, in its colour
        customdata=[gain_text(ratio(gain), LESS[name]) for gain in gains],
    )
