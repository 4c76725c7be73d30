"""Figures of the HBM traffic page: bytes by tensor, over the length and over blocks; memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.figures.base import MONO, drawn
from app.figures.colours import Palette
from app.figures.units import bytes_text, length_ticks, log_ticks, short
from engine.footprint import memory_bytes
from engine.schedule import Tensor
from engine.simulation import Simulation
from engine.survey import OverLength

if TYPE_CHECKING:
    import plotly.graph_objects as go

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
    traces = [
        {
            "type": "bar",
            "x": values,
            "y": places,
            "orientation": "h",
            "name": LABELS[tensor],
            "marker": {
                "color": colours.tensor(label),
                "line": {"width": 1, "color": colours.ground},
                "pattern": {"shape": "/" if tensor == Tensor.P else "", "solidity": 0.25, "size": 6},
            },
            "customdata": [bytes_text(value) for value in values],
            "hovertemplate": f"{LABELS[tensor]} %{{y}}: %{{customdata}}<extra></extra>",
        }
        for tensor, label in TENSOR_NAMES.items()
        if any(values := [moved[row][tensor] for row in rows])
    ]
    totals = [sum(moved[row].values()) for row in rows]
    return drawn(
        traces,
        colours,
        height=250,
        x={"range": [0, 1.16 * max(totals)], "showgrid": True, **_linear_ticks(max(totals))},
        y={"autorange": "reversed", "showgrid": False},
        annotations=[
            _label(total, place, bytes_text(total), colours.ink, font={"family": MONO, "size": 13}, xshift=6)
            for place, total in zip(places, totals, strict=True)
        ],
        barmode="stack",
        bargap=0.22,
    )


def over_length(survey: OverLength, kind: str, keys: int, colours: Palette) -> go.Figure:
    """Bytes of one kind over the sequence length, both axes logarithmic; the scenario's length is marked."""
    lines = {
        name: [getattr(simulation.traffic, kind).total for simulation in simulations]
        for name, simulations in survey.simulations.items()
    }
    values = [value for line in lines.values() for value in line]
    return _length_figure(_lines(survey, lines, colours), survey, values, keys, colours)


def memory(survey: OverLength, keys: int, largest: Mapping[str, int], colours: Palette) -> go.Figure:
    """HBM that the tensors take over the length, and where each algorithm runs out of the GPU's."""
    gpu = next(iter(survey.simulations.values()))[0].experiment.gpu
    lines = {
        name: [memory_bytes(simulation.experiment) for simulation in simulations]
        for name, simulations in survey.simulations.items()
    }
    ends = [
        {
            "type": "scatter",
            "x": [length],
            "y": [gpu.memory_bytes],
            "mode": "markers",
            "marker": {"symbol": "x", "size": 9, "color": colours.algorithms[name]},
            "hovertemplate": f"{NAMES[name]} runs out beyond N = {length:,}<extra></extra>",
            "showlegend": False,
        }
        for name, length in largest.items()
        if survey.lengths[0] <= length <= survey.lengths[-1]
    ]
    capacity = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": gpu.memory_bytes,
        "y1": gpu.memory_bytes,
        "line": {"color": colours.bad, "width": 1.5, "dash": "dot"},
    }
    text = f"{gpu.name}: {bytes_text(gpu.memory_bytes)}"
    place = math.log10(survey.lengths[0]), math.log10(gpu.memory_bytes)
    name = _label(*place, text, colours.bad, yanchor="bottom")
    values = [value for line in lines.values() for value in line] + [gpu.memory_bytes]
    traces = [*_lines(survey, lines, colours), *ends]
    return _length_figure(traces, survey, values, keys, colours, (capacity,), (name,))


def over_blocks(
    survey: Mapping[tuple[int, int], Simulation], current: tuple[int, int], colours: Palette
) -> go.Figure:
    """Requested bytes at every block size; struck out where they do not fit, framed the scenario's."""
    rows, columns = sorted({pair[0] for pair in survey}), sorted({pair[1] for pair in survey})
    grid = [[survey[row, column] for column in columns] for row in rows]
    heat = {
        "type": "heatmap",
        "z": [[math.log10(cell.traffic.requested.total) for cell in line] for line in grid],
        "x": [str(column) for column in columns],
        "y": [str(row) for row in rows],
        "text": [[_cell_text(cell) for cell in line] for line in grid],
        "texttemplate": "%{text}",
        "textfont": {"family": MONO, "size": 12, "color": colours.ink},
        "customdata": [[cell.footprint.sentence for cell in line] for line in grid],
        "hovertemplate": "block_q %{y}, block_kv %{x}: %{text}<br>%{customdata}<extra></extra>",
        "colorscale": [[0, colours.panel], [1, faded(colours.q)]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }
    shapes = [
        _box("line", i, j, {"color": colours.bad, "width": 2})
        for i, line in enumerate(grid)
        for j, cell in enumerate(line)
        if not cell.footprint.fits
    ]
    if current in survey:
        i, j = rows.index(current[0]), columns.index(current[1])
        shapes.append(_box("rect", i, j, {"color": colours.ink, "width": 2.5}))
    axis = {"showgrid": False, "type": "category"}
    return drawn(
        [heat],
        colours,
        height=245,
        legend=False,
        x={"title_text": "key block, rows", **axis},
        y={"title_text": "query block, rows", **axis},
        shapes=shapes,
    )


def _cell_text(cell: Simulation) -> str:
    text = bytes_text(cell.traffic.requested.total)
    return text if cell.footprint.fits else f"<s>{text}</s>"


def _box(kind: str, row: int, column: int, line: dict) -> dict:
    """A shape over one cell: its frame, or a line across it."""
    corners = {"x0": column - 0.48, "x1": column + 0.48, "y0": row - 0.48, "y1": row + 0.48}
    return {"type": kind, "line": line, **corners}


def faded(colour: str) -> str:
    """A colour as a ground that text is legible on."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.55)"


def _lines(survey: OverLength, lines: Mapping[str, list[int]], colours: Palette) -> list[dict]:
    return [
        {
            "type": "scatter",
            "x": survey.lengths,
            "y": values,
            "name": NAMES[name],
            "mode": "lines",
            "line": {"color": colours.algorithms[name], "width": 2.5, "dash": DASHES[name]},
            "customdata": [bytes_text(value) for value in values],
            "hovertemplate": f"{NAMES[name]}, N = %{{x:,}}: %{{customdata}}<extra></extra>",
        }
        for name, values in lines.items()
    ]


def _length_figure(
    traces: list[dict], survey: OverLength, values, keys: int, colours: Palette, shapes=(), annotations=()
) -> go.Figure:
    """Both axes logarithmic, with the scenario's length marked."""
    mark = {"type": "line", "yref": "paper", "x0": keys, "x1": keys, "y0": 0, "y1": 1}
    line = {"color": colours.muted, "width": 1, "dash": "dot"}
    name = {"yref": "paper", "yanchor": "bottom", "xshift": 3}
    return drawn(
        traces,
        colours,
        height=245,
        x=length_ticks(survey.lengths),
        y=log_ticks(min(values), max(values), "B"),
        shapes=[{**mark, "line": line}, *shapes],
        annotations=[
            _label(math.log10(keys), 0, f"N = {short(keys)}", colours.muted, **name),
            *annotations,
        ],
    )


def _label(x, y, text: str, colour: str, font: dict | None = None, **more) -> dict:
    """A word beside a point, to its right."""
    face = {"color": colour, "size": 12, **(font or {})}
    return {"x": x, "y": y, "text": text, "showarrow": False, "xanchor": "left", "font": face, **more}


def _linear_ticks(most: float) -> dict:
    """Five round labels from 0, in bytes."""
    step = 10 ** math.floor(math.log10(most / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step * 5 >= most)
    values = [step * index for index in range(int(most / step) + 1)]
    return {"tickvals": values, "ticktext": [bytes_text(value) for value in values]}
