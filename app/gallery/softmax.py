"""The gallery's page of the online softmax: rows of scores, and what becomes of m, l and α at every step."""

from __future__ import annotations

from html import escape

import numpy as np

from app.figures.base import drawn
from app.figures.colours import Palette
from app.figures.tables import table
from app.figures.units import number_text
from app.gallery.shell import both, sideways
from app.gallery.svg import chart
from app.markup.formulas import mathml
from app.page.softmax import FORMULAS, error_text, sentence
from engine.trace.softmax import PRESETS, OnlineSteps, Preset, errors, online_steps

BLOCK, DTYPE = 4, "float16"
HEAD = ("scores read", "m", "α", "l", "what happens")
KINDS = ("naive", "safe", "online")


def rows() -> str:
    """Every example row with its picture, its steps and its errors."""
    formulas = "".join(mathml(line) for line in _lines())
    return formulas + "".join(_row(preset) for preset in PRESETS.values())


def _lines() -> list[str]:
    """The page's formulas, one after the other."""
    inner = FORMULAS.split(r"\begin{aligned}")[1].split(r"\end{aligned}")[0]
    return [line.replace("&", "").strip() for line in inner.split(r"\\")]


def _row(preset: Preset) -> str:
    scores = np.array(preset.scores)
    steps, found = online_steps(scores, BLOCK), errors(scores, BLOCK, DTYPE)
    told = [
        [
            f"{steps.stops[at]}",
            *(number_text(float(values[at]), 4) for values in (steps.m, steps.alpha, steps.l)),
            sentence(steps, at + 1),
        ]
        for at in range(len(steps.stops))
    ]
    worst = [[f"{kind} softmax", error_text(getattr(found, kind))] for kind in KINDS]
    alt = f"{preset.name}: scores (points) and the running maximum m (line), {BLOCK} scores per step"
    return (
        f"<section class='card'><h2>{escape(preset.name)}</h2><p>{escape(preset.what)}</p>"
        f"{both(lambda colours: chart(_figure(scores, steps, colours), alt))}"
        f"{sideways(table(HEAD, told, words=(4,)))}"
        f"{sideways(table((DTYPE, 'largest error of a weight'), worst))}</section>"
    )


def _figure(scores: np.ndarray, steps: OnlineSteps, colours: Palette):
    """Scores as points, and the maximum of those read so far as a staircase."""
    shown = [float(score) if np.isfinite(score) else None for score in scores]
    maxima = [float(m) if np.isfinite(m) else None for m in steps.m]
    ends = [-0.5, *(float(stop) - 0.5 for stop in steps.stops)]
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": "scores",
        "x": list(range(len(shown))),
        "y": shown,
        "marker": {"color": colours.s, "size": 9},
        "customdata": ["" if score is None else f"{score:g}" for score in shown],
    }
    staircase = {
        "type": "scatter",
        "mode": "lines",
        "name": "m, running maximum",
        "x": [end for at in range(len(maxima)) for end in ends[at : at + 2]],
        "y": [m for m in maxima for _ in range(2)],
        "line": {"color": colours.statistics, "width": 2.5},
    }
    x = {"title_text": "score of the row, by key", "range": [-0.6, len(shown) - 0.4]}
    return drawn([points, staircase], colours, height=230, x=x)
