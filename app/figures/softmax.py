"""The online softmax of one row over one axis, and what sinks and a cap make of a scenario's scores."""

import numpy as np

from app.figures.base import Figure, axis, bars, drawn, line, note
from app.figures.colours import Palette
from engine.studies.terms import CAPS, GEMMA_2, ScoreTerms, capped
from engine.trace.softmax import OnlineSteps

HEIGHT, LOW, TERMS_HEIGHT = 588, 400, 300  # px; a low one's panels have one line of title each
BINS = 40
DASHES = ("solid", "dash", "dot")
FEW, FEW_TICKS = 64, 8  # scores, each of which has a mark, or a tick, of its own
# Corners around a place: how far to its right, what share of its height, how far above; a mark is a level
# line, which leads to the next along 0 without any width.
BAR = ((-0.375, 0, 0), (-0.375, 1, 0), (0.375, 1, 0), (0.375, 0, 0))
THICK = 0.009  # half of a level line
MARK = (
    *((-0.5, 0, 0), (-0.5, 1, THICK), (0.5, 1, THICK)),
    *((0.5, 1, -THICK), (-0.5, 1, -THICK), (-0.5, 0, 0)),
)
# The part of the height that each panel takes, counted from the bottom.
SCORES, WEIGHTS, SUMS, ALPHAS = (0.72, 1.0), (0.42, 0.64), (0.18, 0.34), (0.0, 0.10)


def row(
    scores: np.ndarray,
    steps: OnlineSteps,
    step: int,
    naive_sums: np.ndarray,
    dtype: str,
    colours: Palette,
    *,
    low: bool = False,
) -> Figure:
    """Draw what is known after a number of steps.

    Args:
        scores: [n], -inf where masked.
        steps: the row's online softmax.
        step: how many steps are done, from 0.
        naive_sums: [n] the naive softmax's running sum of exp(score) in the dtype.
        dtype: names it in the legend.
        low: whether there is little room below and much beside: a room's screen.
    """
    stop = int(steps.stops[step - 1]) if step else 0
    start = int(steps.stops[step - 2]) if step > 1 else 0
    traces = [
        *_scores(scores, start, stop, colours),
        _staircase(steps, steps.m, step, "m", colours.statistics, "y"),
        *_weights(steps, step, stop, colours),
        *_sums(steps, step, stop, naive_sums, colours),
        _alphas(steps, step, colours),
    ]
    return drawn(
        traces,
        colours,
        height=LOW if low else HEIGHT,
        legend=False,
        x={
            "range": [-0.6, len(scores) - 0.4],
            "showgrid": False,
            "zeroline": False,
            "anchor": "y4",
            "title_text": "score of the row, by key",
            **({"dtick": 1} if len(scores) <= FEW_TICKS else {}),  # no ticks between scores
        },
        **_panels(scores, steps, naive_sums, colours),
        annotations=_titles(dtype, colours, " · " if low else "<br>"),
        shapes=_bands(start, stop, colours),
        barmode="overlay",
        bargap=0.25,
        margin={"l": 58, "r": 8, "t": 22 if low else 42, "b": 44},
    )


def _titles(dtype: str, colours: Palette, between: str) -> list[dict]:
    """What each panel shows, every name in its mark's colour, and what stands between its two parts."""

    def mark(text, colour):
        return f'<b style="color:{colour}">{text}</b>'

    titles = {
        SCORES: f"{mark('s, scores', colours.s)} · {mark('m, running maximum', colours.statistics)}{between}"
        "bright: read now; faint: still to come",
        WEIGHTS: f"{mark('exp(s − m), weights now', colours.s)}{between}"
        f"▨ before the rescale · {mark('— in the end, ÷ l', colours.ink)}",
        SUMS: f"{mark('l, running sum', colours.v)}{between}"
        f"{mark(f'naive sum of exp(s), {dtype}', colours.bad)}, dotted",
        ALPHAS: mark("α, rescale factor of each step", colours.o),
    }
    place = {"xref": "paper", "yref": "paper", "yanchor": "bottom", "align": "left", "size": 13}
    return [note(0, domain[1], text, colours.muted, **place) for domain, text in titles.items()]


def _bands(start: int, stop: int, colours: Palette) -> list[dict]:
    """The scores of this step, shaded through every panel."""
    band = {"type": "rect", "xref": "x", "yref": "paper", "layer": "below", "line": {"width": 0}}
    edges = {"x0": start - 0.5, "x1": stop - 0.5, "fillcolor": colours.s, "opacity": 0.1}
    panels = (SCORES, WEIGHTS, SUMS, ALPHAS) if stop else ()
    return [{**band, **edges, "y0": low, "y1": high} for low, high in panels]


def _panels(scores, steps, naive_sums, colours) -> dict[str, dict]:
    """The four value axes; fixed ranges, so that from step to step nothing moves but what changes."""
    finite = scores[np.isfinite(scores)]
    low, high = min(0, finite.min(initial=0)), max(1, finite.max(initial=0))
    space = 0.08 * (high - low)
    least = min(float(values[values > 0].min(initial=1)) for values in (steps.l, naive_sums))
    sums = [np.log10(least / 2), np.log10(_ceiling(steps, naive_sums))]
    look = {"anchor": "x", "automargin": False}
    powers = {"type": "log", "dtick": 2 if sums[1] - sums[0] > 4 else 1, "exponentformat": "e"}
    panels = {
        "yaxis2": {"domain": WEIGHTS, "range": [0, 1.06], "tickvals": [0, 0.5, 1], "title_text": "weight"},
        "yaxis3": {"domain": SUMS, "range": sums, "title_text": "sum", **powers},
        "yaxis4": {"domain": ALPHAS, "range": [0, 1.1], "tickvals": [0, 1], "title_text": "α"},
    }
    axes = {name: axis(colours, **look, **panel) for name, panel in panels.items()}
    scores = {"domain": SCORES, "range": [low - space, high + space], "title_text": "score", **look}
    return {"y": scores, **axes}


def _outlines(x, y, panel, hover, *, corners=BAR, **look) -> dict:
    """Bars as one outline along 0: drawn bar by bar they take a browser longer than the rest of a page."""
    shown = np.isfinite(y)
    # with as many digits as can be seen: a number is sent as text, several times for a bar
    x, y = x[shown, None], np.array([float(f"{value:.5g}") for value in y[shown]])[:, None]
    right, share, up = np.array(corners).T
    return {
        "type": "scatter",
        "mode": "lines",
        "x": (x + right).ravel(),
        "y": (y * share + up).ravel(),
        "fill": "toself",
        "line": {"width": 0},
        "hoveron": "points",
        "customdata": np.repeat(y, len(corners)),  # what is pointed at may be a corner below
        "hovertemplate": f"{hover}<extra></extra>",
        "yaxis": panel,
        **look,
    }


def _scores(scores, start, stop, colours) -> list[dict]:
    position = np.arange(len(scores))
    masked = position[np.isneginf(scores)]
    parts = ((slice(start), 0.55), (slice(start, stop), 1.0), (slice(stop, None), 0.18))
    hover = "score %{x:.0f}: %{customdata:.4g}"
    return [
        *(
            _outlines(position[part], scores[part], "y", hover, fillcolor=colours.s, opacity=opacity)
            for part, opacity in parts
        ),
        _words(masked, 0, "−∞", "middle center", colours.muted, "score %{x}: masked", "y"),
    ]


def _words(x, y, word, place, colour, hover, panel) -> dict:
    return {
        "type": "scatter",
        "mode": "text",
        "x": x,
        "y": np.full(len(x), y),
        "text": [word] * len(x),
        "textposition": place,
        "textfont": {"color": colour, "size": 12},
        "hovertemplate": f"{hover}<extra></extra>",
        "yaxis": panel,
    }


def _staircase(steps, values, step, name, colour, panel) -> dict:
    """A value that holds from the first score of its step to the last."""
    ends = np.concatenate(([0], steps.stops[:step])) - 0.5
    heights = np.where(np.isfinite(values[:step]), values[:step], np.nan)
    return line(np.repeat(ends, 2)[1:-1], np.repeat(heights, 2), colour, f"{name} %{{y:.4g}}", yaxis=panel)


def _weights(steps, step, stop, colours) -> list[dict]:
    position = np.arange(steps.weights.shape[1])
    nothing = np.zeros(len(position))
    now = steps.weights[step - 1] if step else nothing
    before = steps.weights[step - 2] if step > 1 else nothing
    hatched = {"shape": "/", "fgcolor": colours.muted, "size": 5}
    return [
        _outlines(
            position,
            np.where(before > now, before, np.nan),
            "y2",
            "before %{customdata:.4g}",
            fillcolor="rgba(0,0,0,0)",
            fillpattern=hatched,
            line={"color": colours.muted, "width": 1},
        ),
        _outlines(position[:stop], now[:stop], "y2", "now %{customdata:.4g}", fillcolor=colours.s),
        _outlines(
            position, steps.final, "y2", "in the end %{customdata:.4g}", corners=MARK, fillcolor=colours.ink
        ),
    ]


def _sums(steps, step, stop, naive_sums, colours) -> list[dict]:
    drawable = np.isfinite(naive_sums) & (naive_sums > 0)
    lost = np.flatnonzero(np.isinf(naive_sums[:stop]))
    return [
        _staircase(steps, np.where(steps.l > 0, steps.l, np.nan), step, "l", colours.v, "y3"),
        line(
            np.arange(stop),
            np.where(drawable, naive_sums, np.nan)[:stop],
            colours.bad,
            "naive %{y:.5g}",
            **{"width": 1.5, "dash": "dot", "mode": "lines+markers" if stop <= FEW else "lines"},
            **{"marker": {"size": 5}, "yaxis": "y3"},
        ),
        _words(lost, _ceiling(steps, naive_sums), "inf", "bottom center", colours.bad, "naive: inf", "y3"),
    ]


def _alphas(steps, step, colours) -> dict:
    starts = np.concatenate(([0], steps.stops[:-1]))
    middles, width = (starts + steps.stops - 1) / 2, 0.7 * (steps.stops - starts)
    return bars(middles[:step], steps.alpha[:step], colours.o, "α %{y:.4g}", width=width[:step], yaxis="y4")


def _ceiling(steps: OnlineSteps, naive_sums: np.ndarray) -> float:
    finite = naive_sums[np.isfinite(naive_sums)]
    return 3 * max(float(steps.l.max(initial=1)), float(finite.max(initial=1)))


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
