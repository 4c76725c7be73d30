"""What sinks and a cap make of a scenario's scores."""

import numpy as np

from app.figures.base import Figure, drawn, line
from app.figures.colours import Palette
from engine.studies.terms import CAPS, GEMMA_2, ScoreTerms, capped

HEIGHT = 300  # px
DASHES = ("solid", "dash", "dot")


def sums(found: ScoreTerms, colours: Palette) -> Figure:
    """What the weights of every row sum to, by the sink's logit; without a sink it is one."""
    lines = [_curve(found.rows[[0, -1]], np.ones(2), "no sink", colours.muted, "solid")]
    for (sink, values), dash in zip(found.sums.items(), DASHES, strict=True):
        lines.append(_curve(found.rows, values, f"sink {sink:g}", colours.s, dash))
    titles = {
        "x": {"title_text": "query row"},
        "y": {"title_text": "sum of the row's weights", "range": [0, 1.06]},
    }
    return drawn(lines, colours, height=HEIGHT, **titles)


def caps(found: ScoreTerms, colours: Palette) -> Figure:
    """c tanh(s / c) for some caps c, as far as the scenario's scores reach."""
    scores = np.linspace(-found.most, found.most, 121)
    names = (f"c = {cap:g}" + ", Gemma 2's" * (cap == GEMMA_2) for cap in CAPS)
    lines = [
        _curve(scores, capped(scores, cap), name, colours.o, dash)
        for cap, name, dash in zip(CAPS, names, reversed(DASHES), strict=True)
    ]
    titles = {"x": {"title_text": "score s"}, "y": {"title_text": "capped score"}}
    return drawn(lines, colours, height=HEIGHT, **titles)


def _curve(x: np.ndarray, y: np.ndarray, name: str, colour: str, dash: str) -> dict:
    return line(x, y, colour, f"{name}: %{{y:.3g}} at %{{x:.4g}}", width=2, dash=dash, name=name)
