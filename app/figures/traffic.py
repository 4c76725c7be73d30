"""Figures of the HBM traffic page: bytes by tensor, over the length and over blocks; memory."""

import math
from collections.abc import Mapping
from html import escape

from app.figures import tables
from app.figures.algorithms import look, short
from app.figures.base import Figure
from app.figures.colours import Palette
from app.figures.curves import OVER_LENGTH, Curve, curves
from app.figures.units import bytes_text
from engine.model.simulation import Simulation
from engine.schedule.step import Tensor
from engine.studies.survey import ByLength, TilingCost

LABELS = {
    **{each: each.name for each in (Tensor.Q, Tensor.K, Tensor.V, Tensor.S, Tensor.P, Tensor.O)},
    **{Tensor.STATISTICS: "m, l", Tensor.LSE: "lse"},
}
LABEL_WIDTH = 5.43  # rem that a bar leaves for its total
HATCHED = (Tensor.P, Tensor.STATISTICS, Tensor.LSE)  # else they look like S and Q


def by_tensor(simulations: Mapping[str, Simulation], kind: str, colours: Palette) -> str:
    """Bytes of every algorithm by tensor and direction, as HTML: stacked bars to one scale, the legend above.

    kind: requested, dram or compulsory.
    """
    rows = bar_bytes(simulations, kind)
    most = max(sum(by.values()) for *_, by in rows) or 1
    looks = {tensor: _fill(tensor, colours) for tensor in LABELS if any(tensor in by for *_, by in rows)}
    legend = "".join(f"<span><i style='{look}'></i>{LABELS[tensor]}</span>" for tensor, look in looks.items())
    lines = [f"<span></span><span class='key'>{legend}</span>"]
    for name, direction, by in rows:
        parts = "".join(
            f"<i title='{LABELS[tensor]}, {short(name)}, {direction}: {bytes_text(value)}' "
            f"style='{looks[tensor]};border-color:{colours.ground};"
            f"width:calc((100% - {LABEL_WIDTH}rem) * {value / most:.5f})'></i>"
            for tensor, value in by.items()
        )
        lines.append(
            f"<span class='place'>{escape(short(name))} {direction}</span>"
            f"<span class='bar'>{parts}<b>{bytes_text(sum(by.values()))}</b></span>"
        )
    return f"<div class='bars'>{''.join(lines)}</div>"


def _fill(tensor: Tensor, colours: Palette) -> str:
    """A plain ground, or stripes of the tensor's colour."""
    colour = colours.tensor(LABELS[tensor])
    if tensor not in HATCHED:
        return f"background:{colour}"
    stripes = f"{colour} 0 1.5px, transparent 1.5px 6px"
    pale = f"linear-gradient(color-mix(in srgb, {colour} 22%, transparent) 0 0)"
    return f"background:repeating-linear-gradient(135deg, {stripes}),{pale}"


def bar_bytes(simulations: Mapping[str, Simulation], kind: str) -> list[tuple[str, str, dict[Tensor, int]]]:
    """(algorithm, direction, bytes by tensor) of every bar, top to bottom."""
    return [
        (name, direction, {tensor: by[tensor] for tensor in LABELS if by[tensor]})
        for name, simulation in simulations.items()
        for direction in ("read", "written")
        for by in [getattr(getattr(simulation.traffic, kind), direction)]
    ]


def bytes_by_length(survey: ByLength, kind: str, keys: int, colours: Palette) -> Figure:
    """Bytes of one kind over the sequence length, both axes logarithmic; the scenario's length is marked."""
    lines = {
        short(name): Curve(
            {one.experiment.problem.seq_kv: getattr(one.traffic, kind).total for one in simulations},
            look(name).tone,
            look(name).dash,
        )
        for name, simulations in survey.simulations.items()
    }
    return curves(lines, colours, **OVER_LENGTH, y="", told=bytes_text, marked={keys: "dot"}, height=270)


def bytes_by_tiling(
    survey: Mapping[tuple[int, int], TilingCost], current: tuple[int, int], colours: Palette
) -> str:
    """Requested bytes at every block size, as HTML; crossed out what does not fit, framed the scenario's."""
    logs = {pair: math.log(cell.requested.total) for pair, cell in survey.items()}
    low, span = min(logs.values()), max(logs.values()) - min(logs.values()) or 1.0

    def cell(*pair: int) -> tables.Cell:
        requested, held = survey[pair].requested.total, survey[pair].footprint
        share, look = (logs[pair] - low) / span, {"struck": not held.fits, "framed": pair == current}
        return tables.Cell(bytes_text(requested), held.sentence, share, **look)

    return tables.by_blocks(survey, cell, colours, "Requested bytes by block size")
