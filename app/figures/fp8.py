"""Error against speed of attention in FP8, beside float16: a mark for each kind of numbers and inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

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


class Side(NamedTuple):
    """Where a name stands: at the mark with the larger or the smaller error, so many pixels beside it."""

    larger: bool
    anchor: str
    right: int
    up: int


SIDES = {  # FP8's marks lie close together
    "float16": Side(True, "left", 12, 0),
    "tensor": Side(True, "left", -6, 20),
    "block": Side(True, "left", 12, 8),
    "rotated": Side(False, "center", 0, -18),
}
INPUTS = {"normal": ("normal inputs", "circle"), "outliers": ("inputs with outliers", "diamond-open")}
ROOM = 0.15  # of the speeds' extent, beside the outermost marks; more on the right, for a name


def error_by_speed(rows: Sequence[Fp8Timing], origin: str, colours: Palette) -> Figure:
    """Error of O, logarithmic, over TFLOP/s; a line joins the same numbers on other inputs.

    origin: where the rows come from, in words.
    """
    timed = [row for row in rows if row.times]
    tones = dict(zip(NAMES, (colours.muted, colours.bad, colours.k, colours.good), strict=True))
    joins = [_join([row for row in timed if row.numbers == numbers], tones[numbers]) for numbers in NAMES]
    points = [
        _marks([row for row in timed if row.inputs == inputs], tones, inputs, origin) for inputs in INPUTS
    ]
    names = [_name([row for row in timed if row.numbers == numbers], tones[numbers]) for numbers in NAMES]
    errors = [row.relative_error for row in timed]
    powers = range(math.floor(math.log10(min(errors))), math.ceil(math.log10(max(errors))) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 3)]
    speeds = [row.tflops for row in timed]
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
        annotations=[name for name in names if name],
    )


def _join(rows: Sequence[Fp8Timing], tone: str) -> dict:
    x, y = [row.tflops for row in rows], [row.relative_error for row in rows]
    return line(x, y, tone, width=1.5, dash="dot", showlegend=False)


def _marks(rows: Sequence[Fp8Timing], tones: dict[str, str], inputs: str, origin: str) -> dict:
    (name, symbol), own = INPUTS[inputs], [tones[row.numbers] for row in rows]
    return marks(
        [row.tflops for row in rows],
        [row.relative_error for row in rows],
        own,
        f"%{{customdata[0]}}, {name}, {origin}: %{{x:.0f}} TFLOP/s, off by %{{customdata[1]}}",
        **{"name": name, "symbol": symbol, "size": 12, "edge": {"width": 2, "color": own}},
        customdata=[[NAMES[row.numbers], share_text(row.relative_error, 2)] for row in rows],
    )


def _name(rows: Sequence[Fp8Timing], tone: str) -> dict | None:
    """The numbers' name beside one of their marks."""
    if not rows:
        return None
    side = SIDES[rows[0].numbers]
    beside = (max if side.larger else min)(rows, key=lambda row: row.relative_error)
    place = {"xanchor": side.anchor, "xshift": side.right, "yshift": side.up}
    height = math.log10(beside.relative_error)
    return note(beside.tflops, height, NAMES[beside.numbers], tone, size=13, **place)
