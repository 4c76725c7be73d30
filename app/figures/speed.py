"""Figures of the Speed page: measured and modelled over the sequence length, and one against the other."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from app.figures.base import finish
from app.figures.colours import Palette
from app.figures.units import length_ticks, log_ticks, scaled, seconds_text, times_text

LABELS = {
    "standard": "Triton standard",
    "flash1": "Triton flash 1",
    "flash2": "Triton flash 2",
    "eager": "PyTorch unfused",
    "sdpa": "PyTorch fused",
    "sdpa_flash": "PyTorch flash",
    "sdpa_cudnn": "PyTorch cuDNN",
    "sdpa_efficient": "PyTorch mem.-efficient",
}
SYMBOLS = {"standard": "circle", "flash1": "square", "flash2": "diamond", "eager": "x"}


def tokens_text(rate: float) -> str:
    """Tokens a second, as "135 k tokens/s"."""
    return f"{scaled(rate, '').strip()} tokens/s"


UNITS = {
    "p50": ("s", seconds_text),
    "tflops": ("FLOP/s", lambda value: scaled(value, "FLOP/s")),
    "tokens_per_second": ("tokens/s", tokens_text),
    "speedup": ("×", times_text),
}


def marks(provider: str, colours: Palette) -> tuple[str, str]:
    """Colour and marker of a provider: the algorithms' own; for PyTorch's, tones apart from the tensors'."""
    pytorch = {
        "eager": colours.ink,
        "sdpa": colours.violet,
        "sdpa_flash": colours.violet,
        "sdpa_cudnn": colours.lime,
        "sdpa_efficient": colours.rose,
    }
    return {**colours.algorithms, **pytorch}[provider], SYMBOLS.get(provider, "triangle-up")


def over_length(
    measured: Sequence[dict], modelled: Sequence[dict], metric: str, lengths: Sequence[int], colours: Palette
) -> go.Figure:
    """One metric over the length, logarithmic: measured as lines with marks, modelled as dashes."""
    factor = 1e12 if metric == "tflops" else 1.0
    unit, text = UNITS[metric]
    figure = go.Figure()
    for rows, origin in ((modelled, "modelled"), (measured, "measured here")):
        for provider in dict.fromkeys(row["provider"] for row in rows):
            own = [row for row in rows if row["provider"] == provider and row[metric]]
            own = [row for row in own if lengths[0] <= row["keys"] <= lengths[-1]]
            colour, symbol = marks(provider, colours)
            values = [row[metric] * factor for row in own]
            real, short = origin == "measured here", LABELS[provider].removeprefix("Triton ")
            figure.add_scatter(
                x=[row["keys"] for row in own],
                y=values,
                name=LABELS[provider] if real else f"{short}, modelled",
                mode="lines+markers" if real else "lines",
                showlegend=real or not measured,  # the dotted lines have the colours of the others
                line={"color": colour, "width": 2.5 if real else 1.5, "dash": "solid" if real else "dot"},
                marker={"symbol": symbol, "size": 8},
                customdata=[text(value) for value in values],
                hovertemplate=f"{LABELS[provider]}, N = %{{x:,}}, {origin}: %{{customdata}}<extra></extra>",
            )
    finish(figure, colours, height=330)
    figure.update_layout(legend={"font": {"size": 12}, "entrywidth": 148})
    figure.update_xaxes(**length_ticks(lengths))
    everything = [value for trace in figure.data for value in trace.y]
    figure.update_yaxes(**_ticks(metric, min(everything), max(everything), unit))
    return figure


def against(pairs: Sequence[dict], colours: Palette) -> go.Figure:
    """Measured over modelled seconds (rows have p50 and modelled); on the line they are equal."""
    figure = go.Figure()
    seconds = [value for row in pairs for value in (row["p50"], row["modelled"])] or [1e-6, 1.0]
    low, high = min(seconds) / 2, max(seconds) * 2
    figure.add_scatter(
        x=[low, high],
        y=[low, high],
        mode="lines",
        line={"color": colours.muted, "width": 1, "dash": "dot"},
        name="equal",
        hoverinfo="skip",
    )
    for provider in dict.fromkeys(row["provider"] for row in pairs):
        own = [row for row in pairs if row["provider"] == provider]
        colour, symbol = marks(provider, colours)
        figure.add_scatter(
            x=[row["modelled"] for row in own],
            y=[row["p50"] for row in own],
            name=LABELS[provider].removeprefix("Triton "),
            mode="lines+markers",
            line={"color": colour, "width": 1},
            marker={"symbol": symbol, "size": 8},
            customdata=[(row["keys"], *map(seconds_text, (row["p50"], row["modelled"]))) for row in own],
            hovertemplate=f"{LABELS[provider]}, N = %{{customdata[0]:,}}: measured %{{customdata[1]}}, "
            "modelled %{customdata[2]}<extra></extra>",
        )
    finish(figure, colours, height=330)
    figure.update_xaxes(title_text="modelled", **_ticks("p50", low, high, "s"))
    figure.update_yaxes(title_text="measured here", **_ticks("p50", low, high, "s"))
    return figure


def _ticks(metric: str, low: float, high: float, unit: str) -> dict:
    """A logarithmic axis labelled in the metric's own words."""
    ticks = log_ticks(low, high, unit)
    return {**ticks, "ticktext": [UNITS[metric][1](value) for value in ticks["tickvals"]]}
