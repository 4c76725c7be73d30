"""What sinks and a cap make of a scenario's scores."""

import numpy as np

from app.figures.base import Figure, axis, bars, drawn, line
from app.figures.colours import Palette
from engine.studies.terms import CAPS, GEMMA_2, ScoreTerms, capped

TERMS_HEIGHT = 300  # px
BINS = 40
DASHES = ("solid", "dash", "dot")


def sums(found: ScoreTerms, colours: Palette) -> Figure:
    """What the weights of every row sum to, by the sink's logit; without a sink it is one."""
    lines = [_curve(found.rows[[0, -1]], np.ones(2), "no sink", colours.muted, "solid")]
    for (sink, values), dash in zip(found.sums.items(), DASHES, strict=True):
        lines.append(_curve(found.rows, values, f"sink {sink:g}", colours.s, dash))
    return drawn(
        lines,
        colours,
        height=TERMS_HEIGHT,
        x={"title_text": "query row", "range": [-0.5, max(float(found.rows[-1]), 1.0) + 0.5]},
        y={"title_text": "sum of the row's weights", "range": [0, 1.06]},
    )


def caps(found: ScoreTerms, colours: Palette) -> Figure:
    """c tanh(s / c) for some caps c, over how the scenario's scores are spread."""
    most = max(1.0, float(abs(found.scores).max(initial=0)))
    scores = np.linspace(-most, most, 121)
    counts, edges = np.histogram(found.scores, BINS, (-most, most))
    hidden = {"showgrid": False, "showticklabels": False}
    share = bars(
        (edges[:-1] + edges[1:]) / 2,
        counts / max(1, counts.sum()),
        colours.s,
        "%{y:.1%} of the scores near %{x:.2g}",
        **{"opacity": 0.3, "name": "share of the scores", "yaxis": "y2"},
    )
    lines = []
    for cap, dash in zip(CAPS, reversed(DASHES), strict=True):
        name = f"c = {cap:g}" + ", Gemma 2's" * (cap == GEMMA_2)
        lines.append(_curve(scores, capped(scores, cap), name, colours.o, dash))
    return drawn(
        [share, *lines],
        colours,
        height=TERMS_HEIGHT,
        x={"title_text": "score s", "range": [-most, most]},
        y={"title_text": "capped score", "range": [-1.06 * most, 1.06 * most]},
        yaxis2=axis(colours, **hidden, overlaying="y", side="right", rangemode="tozero"),
    )


def _curve(x: np.ndarray, y: np.ndarray, name: str, colour: str, dash: str) -> dict:
    return line(x, y, colour, f"{name}: %{{y:.3g}} at %{{x:.4g}}", width=2, dash=dash, name=name)
