"""Figures of the HBM traffic page: bytes by tensor, over the length and over blocks; memory."""

from __future__ import annotations

import math
from collections.abc import Mapping

import plotly.graph_objects as go

from app.figures.base import MONO, finish
from app.figures.colours import Palette
from app.figures.units import bytes_text, length_ticks, log_ticks, short
from engine.footprint import memory_bytes
from engine.schedule import Tensor
from engine.simulation import Simulation
from engine.survey import OverLength

NAMES = {"standard": "Standard", "flash1": "Flash 1", "flash2": "Flash 2"}
DASHES = {"standard": "solid", "flash1": "dash", "flash2": "solid"}
TENSOR_NAMES = {
    Tensor.Q: "Q",
    Tensor.K: "K",
    Tensor.V: "V",
    Tensor.S: "S",
    Tensor.P: "P",
    Tensor.O: "O",
    Tensor.STATISTICS: "m",
    Tensor.LSE: "lse",
}
LABELS = {**TENSOR_NAMES, Tensor.STATISTICS: "m, l"}


def by_tensor(simulations: Mapping[str, Simulation], kind: str, colours: Palette) -> go.Figure:
    """Bytes of every algorithm by tensor and direction; kind is requested, dram or compulsory."""
    rows = [(name, direction) for name in simulations for direction in ("read", "written")]
    places = [f"{NAMES[name]}  {direction}" for name, direction in rows]
    moved = {row: getattr(getattr(simulations[row[0]].traffic, kind), row[1]) for row in rows}
    figure = go.Figure()
    for tensor, label in TENSOR_NAMES.items():
        values = [moved[row][tensor] for row in rows]
        if any(values):
            figure.add_bar(
                x=values,
                y=places,
                orientation="h",
                name=LABELS[tensor],
                marker={
                    "color": colours.tensor(label),
                    "line": {"width": 1, "color": colours.ground},
                    "pattern": {"shape": "/" if tensor == Tensor.P else "", "solidity": 0.25, "size": 6},
                },
                customdata=[bytes_text(value) for value in values],
                hovertemplate=f"{LABELS[tensor]} %{{y}}: %{{customdata}}<extra></extra>",
            )
    totals = [sum(moved[row].values()) for row in rows]
    for place, total in zip(places, totals, strict=True):
        text = {"text": bytes_text(total), "font": {"family": MONO, "size": 13}}
        figure.add_annotation(x=total, y=place, showarrow=False, xanchor="left", xshift=6, **text)
    finish(figure, colours, height=250)
    most = max(totals)
    figure.update_layout(barmode="stack", bargap=0.22, legend_traceorder="normal")
    figure.update_xaxes(range=[0, 1.16 * most], showgrid=True, **_linear_ticks(most))
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure


def over_length(survey: OverLength, kind: str, keys: int, colours: Palette) -> go.Figure:
    """Bytes of one kind over the sequence length, both axes logarithmic; the scenario's length is marked."""
    lines = {
        name: [getattr(simulation.traffic, kind).total for simulation in simulations]
        for name, simulations in survey.simulations.items()
    }
    figure = _lines(survey, lines, colours)
    everything = [value for line in lines.values() for value in line]
    return _finished_lines(figure, survey, everything, keys, colours)


def memory(survey: OverLength, keys: int, largest: Mapping[str, int], colours: Palette) -> go.Figure:
    """HBM that the tensors take over the length, and where each algorithm runs out of the GPU's."""
    gpu = next(iter(survey.simulations.values()))[0].experiment.gpu
    lines = {
        name: [memory_bytes(simulation.experiment) for simulation in simulations]
        for name, simulations in survey.simulations.items()
    }
    figure = _lines(survey, lines, colours)
    everything = [value for line in lines.values() for value in line] + [gpu.memory_bytes]
    _finished_lines(figure, survey, everything, keys, colours)
    figure.add_hline(y=gpu.memory_bytes, line={"color": colours.bad, "width": 1.5, "dash": "dot"})
    figure.add_annotation(
        x=math.log10(survey.lengths[0]),
        y=math.log10(gpu.memory_bytes),
        text=f"{gpu.name}: {bytes_text(gpu.memory_bytes)}",
        showarrow=False,
        xanchor="left",
        yanchor="bottom",
        font={"color": colours.bad, "size": 12},
    )
    for name, length in largest.items():
        if survey.lengths[0] <= length <= survey.lengths[-1]:
            figure.add_scatter(
                x=[length],
                y=[gpu.memory_bytes],
                mode="markers",
                marker={"symbol": "x", "size": 9, "color": colours.algorithms[name]},
                hovertemplate=f"{NAMES[name]} runs out beyond N = {length:,}<extra></extra>",
                showlegend=False,
            )
    return figure


def over_blocks(
    survey: Mapping[tuple[int, int], Simulation], current: tuple[int, int], colours: Palette
) -> go.Figure:
    """Requested bytes at every block size; struck out where they do not fit, framed the scenario's."""
    rows, columns = sorted({pair[0] for pair in survey}), sorted({pair[1] for pair in survey})
    grid = [[survey[row, column] for column in columns] for row in rows]
    values = [[math.log10(cell.traffic.requested.total) for cell in line] for line in grid]
    texts = [[bytes_text(cell.traffic.requested.total) for cell in line] for line in grid]
    places = [[(cell.footprint.fits, cell.footprint.sentence) for cell in line] for line in grid]
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=[str(column) for column in columns],
            y=[str(row) for row in rows],
            text=[
                [text if fits else f"<s>{text}</s>" for text, (fits, _) in zip(line, place, strict=True)]
                for line, place in zip(texts, places, strict=True)
            ],
            texttemplate="%{text}",
            textfont={"family": MONO, "size": 12, "color": colours.ink},
            customdata=[[sentence for _, sentence in line] for line in places],
            hovertemplate="block_q %{y}, block_kv %{x}: %{text}<br>%{customdata}<extra></extra>",
            colorscale=[[0, colours.panel], [1, faded(colours.q)]],
            showscale=False,
            xgap=2,
            ygap=2,
        )
    )
    for i, line in enumerate(places):
        for j, (fits, _) in enumerate(line):
            if not fits:
                box = {"x0": j - 0.48, "x1": j + 0.48, "y0": i - 0.46, "y1": i + 0.46}
                figure.add_shape(type="line", line={"color": colours.bad, "width": 2}, **box)
    if current in survey:
        i, j = rows.index(current[0]), columns.index(current[1])
        box = {"x0": j - 0.49, "x1": j + 0.49, "y0": i - 0.49, "y1": i + 0.49}
        figure.add_shape(type="rect", line={"color": colours.ink, "width": 2.5}, **box)
    finish(figure, colours, height=245, legend=False)
    figure.update_xaxes(title_text="key block, rows", showgrid=False, type="category")
    figure.update_yaxes(title_text="query block, rows", showgrid=False, type="category")
    return figure


def faded(colour: str) -> str:
    """A colour as a ground that text is legible on."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.55)"


def _lines(survey: OverLength, lines: Mapping[str, list[int]], colours: Palette) -> go.Figure:
    figure = go.Figure()
    for name, values in lines.items():
        figure.add_scatter(
            x=survey.lengths,
            y=values,
            name=NAMES[name],
            mode="lines",
            line={"color": colours.algorithms[name], "width": 2.5, "dash": DASHES[name]},
            customdata=[bytes_text(value) for value in values],
            hovertemplate=f"{NAMES[name]}, N = %{{x:,}}: %{{customdata}}<extra></extra>",
        )
    return figure


def _finished_lines(figure: go.Figure, survey: OverLength, values, keys: int, colours: Palette) -> go.Figure:
    finish(figure, colours, height=245)
    figure.update_xaxes(**length_ticks(survey.lengths))
    figure.update_yaxes(**log_ticks(min(values), max(values), "B"))
    figure.add_vline(x=keys, line={"color": colours.muted, "width": 1, "dash": "dot"})
    figure.add_annotation(
        x=math.log10(keys),
        y=0,
        yref="paper",
        text=f"N = {short(keys)}",
        showarrow=False,
        xanchor="left",
        yanchor="bottom",
        xshift=3,
        font={"size": 12, "color": colours.muted},
    )
    return figure


def _linear_ticks(most: float) -> dict:
    """Five round labels from 0, in bytes."""
    step = 10 ** math.floor(math.log10(most / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step * 5 >= most)
    values = [step * index for index in range(int(most / step) + 1)]
    return {"tickvals": values, "ticktext": [bytes_text(value) for value in values]}
