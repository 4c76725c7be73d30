"""Error against speed of attention in FP8, beside float16: a mark for each kind of numbers and inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.figures.base import Figure, drawn, line, marks, note
from app.figures.colours import Palette
from app.figures.units import log_axis, share_text
from engine.recordings.timing import Fp8Timing

NAMES = {
    "float16": "float16",
    "tensor": "FP8, one scale per tensor",
    "block": "FP8, scales by block",
    "rotated": "FP8, by block, rotated",
}


SIDES = {  # at the mark with which error a name stands, and where: FP8's lie close together
    "float16": (max, {"xanchor": "left", "xshift": 12, "yshift": 0}),
    "tensor": (max, {"xanchor": "left", "xshift": -6, "yshift": 20}),
    "block": (max, {"xanchor": "left", "xshift": 12, "yshift": 8}),
    "rotated": (min, {"xanchor": "center", "xshift": 0, "yshift": -18}),
}
INPUTS = {"normal": ("normal inputs", "circle"), "outliers": ("inputs with outliers", "diamond-open")}
ROOM = 0.15  # of the speeds' extent, beside the outermost marks; more on the right, for a name


def error_by_speed(rows: Sequence[Fp8Timing], origin: str, colours: Palette) -> Figure:
    """Error of O, logarithmic, over TFLOP/s; a line joins the same numbers on other inputs.

    origin: where the rows come from, in words.
    """
    timed = [row for row in rows if row.times]
    tones = dict(zip(NAMES, (colours.muted, colours.bad, colours.k, colours.good), strict=True))
    joins, names = [], []
    for numbers, tone in tones.items():
        x, y = _places(own := [row for row in timed if row.numbers == numbers])
        joins.append(line(x, y, tone, width=1.5, dash="dot", showlegend=False))
        if own:
            side, place = SIDES[numbers]
            error, speed = side(zip(y, x, strict=True))
            names.append(note(speed, math.log10(error), NAMES[numbers], tone, size=13, **place))
    points = [_marks([row for row in timed if row.inputs == each], tones, each, origin) for each in INPUTS]
    speeds, errors = _places(timed)
    powers = range(math.floor(math.log10(min(errors))), math.ceil(math.log10(max(errors))) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 3)]
    room = ROOM * (max(speeds) - min(speeds) or max(speeds))
    return drawn(
        [*joins, *points],
        colours,
        height=300,
        x={
            "title_text": "TFLOP/s, quantising included",
            "range": [min(speeds) - room, max(speeds) + 4 * room],
        },
        y=log_axis(
            ticks,
            lambda tick: f"{100 * tick:g}%",
            min(errors) / 2,
            max(errors) * 4,
            0,
            title_text="error of O, per cent of O",
        ),
        annotations=names,
    )


def _places(rows: Sequence[Fp8Timing]) -> tuple[list[float], list[float]]:
    return [row.tflops for row in rows], [row.relative_error for row in rows]


def _marks(rows: Sequence[Fp8Timing], tones: dict[str, str], inputs: str, origin: str) -> dict:
    (name, symbol), own = INPUTS[inputs], [tones[row.numbers] for row in rows]
    return marks(
        *_places(rows),
        own,
        f"%{{customdata[0]}}, {name}, {origin}: %{{x:.0f}} TFLOP/s, off by %{{customdata[1]}}",
        **{"name": name, "symbol": symbol, "size": 12, "edge": {"width": 2, "color": own}},
        customdata=[[NAMES[row.numbers], share_text(row.relative_error, 2)] for row in rows],
    )
