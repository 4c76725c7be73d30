"""Figures of the HBM traffic page: bytes by tensor, over the length and over blocks; memory."""

import math
from collections.abc import Mapping

from app.figures import tables
from app.figures.algorithms import look, short
from app.figures.base import Figure, level, line, marks, note, over_length
from app.figures.colours import Palette
from app.figures.units import bytes_text, log_ticks
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
    return tables.bars([_bar(*row, colours) for row in bar_bytes(simulations, kind)], colours)


def bar_bytes(simulations: Mapping[str, Simulation], kind: str) -> list[tuple[str, str, dict[Tensor, int]]]:
    """(algorithm, direction, bytes by tensor) of every bar, top to bottom."""
    return [
        (name, direction, {tensor: by[tensor] for tensor in LABELS if by[tensor]})
        for name, simulation in simulations.items()
        for direction in ("read", "written")
        for by in [getattr(getattr(simulation.traffic, kind), direction)]
    ]


def _bar(name: str, direction: str, by: Mapping[Tensor, int], colours: Palette) -> tables.Bar:
    parts = []
    for tensor, value in by.items():
        label = LABELS[tensor]
        told = f"{label}, {short(name)}, {direction}: {bytes_text(value)}"
        parts.append((label, colours.tensor(label), tensor in HATCHED, value, told))
    return tables.Bar(f"{short(name)} {direction}", parts, bytes_text(sum(by.values())))


def bytes_by_length(survey: ByLength, kind: str, keys: int, colours: Palette) -> Figure:
    """Bytes of one kind over the sequence length, both axes logarithmic; the scenario's length is marked."""
    lines = {
        name: [getattr(simulation.traffic, kind).total for simulation in simulations]
        for name, simulations in survey.simulations.items()
    }
    values = [value for line in lines.values() for value in line]
    return over_length(_lines(survey, lines, colours), survey.lengths, keys, colours, **_in_bytes(values))


def memory_by_length(survey: ByLength, keys: int, largest: Mapping[str, int], colours: Palette) -> Figure:
    """HBM that the tensors take over the length, and where each algorithm runs out of the GPU's."""
    gpu = next(iter(survey.simulations.values()))[0].experiment.gpu
    lines = survey.memory
    ends = [
        marks(
            [length],
            [gpu.memory_bytes],
            look(name).colour(colours),
            f"{short(name)} runs out beyond N = {length:,}",
            **{"symbol": "x", "size": 9, "showlegend": False},
        )
        for name, length in largest.items()
        if survey.lengths[0] <= length <= survey.lengths[-1]
    ]
    capacity = level(gpu.memory_bytes, colours.bad, 1.5)
    text = f"{gpu.name}: {bytes_text(gpu.memory_bytes)}"
    place = math.log10(survey.lengths[0]), math.log10(gpu.memory_bytes)
    name = note(*place, text, colours.bad, yanchor="bottom")
    values = [value for line in lines.values() for value in line] + [gpu.memory_bytes]
    traces = [*_lines(survey, lines, colours), *ends]
    room = _in_bytes(values) | {"shapes": [capacity], "notes": [name]}
    return over_length(traces, survey.lengths, keys, colours, **room)


def bytes_by_tiling(
    survey: Mapping[tuple[int, int], TilingCost], current: tuple[int, int], colours: Palette
) -> str:
    """Requested bytes at every block size, as HTML; crossed out what does not fit, framed the scenario's."""
    logs = {pair: math.log(cell.requested.total) for pair, cell in survey.items()}
    low, span = min(logs.values()), max(logs.values()) - min(logs.values()) or 1.0

    def cell(*pair: int) -> tables.Cell:
        requested, held = survey[pair].requested.total, survey[pair].footprint
        share = (logs[pair] - low) / span
        struck = not held.fits
        return tables.Cell(bytes_text(requested), held.sentence, share, struck=struck, framed=pair == current)

    rows, columns = (sorted({*sizes}) for sizes in zip(*survey, strict=True))
    return tables.by_blocks(rows, columns, cell, colours, "Requested bytes by block size")


def _lines(survey: ByLength, lines: Mapping[str, list[int]], colours: Palette) -> list[dict]:
    return [
        line(
            survey.lengths,
            values,
            look(name).colour(colours),
            f"{short(name)}, N = %{{x:,}}: %{{customdata}}",
            dash=look(name).dash,
            name=short(name),
            zorder=int(look(name).dash != "solid"),  # where lines coincide, both are seen
            customdata=[bytes_text(value) for value in values],
        )
        for name, values in lines.items()
    ]


def _in_bytes(values: list[float]) -> dict:
    """How high a chart of bytes is, and its axis."""
    return {"height": 270, "y": log_ticks(min(values), max(values), "B")}
