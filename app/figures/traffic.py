"""Figures of the HBM traffic page: bytes by tensor, over the length and over blocks; memory."""

import math
from collections.abc import Mapping

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
HATCHED = (Tensor.P, Tensor.STATISTICS, Tensor.LSE)  # else they look like S and Q


def by_tensor(simulations: Mapping[str, Simulation], kind: str, colours: Palette) -> str:
    """Bytes of every algorithm by tensor and direction, as HTML; kind is requested, dram or compulsory."""
    bars = []
    for name, direction, by in bar_bytes(simulations, kind):
        parts = []
        for tensor, value in by.items():
            label = LABELS[tensor]
            told = f"{label}, {short(name)}, {direction}: {bytes_text(value)}"
            parts.append((label, colours.tensor(label), tensor in HATCHED, value, told))
        bars.append(tables.Bar(f"{short(name)} {direction}", parts, bytes_text(sum(by.values()))))
    return tables.bars(bars, colours)


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
