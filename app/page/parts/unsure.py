"""Where the modelled DRAM bytes hang on little: between what they lie, in a sentence."""

from __future__ import annotations

from collections.abc import Iterable

from app.figures.algorithms import short
from app.figures.units import bytes_range_text
from engine.model.l2_range import is_wide
from engine.model.simulation import Simulation

WHY = (
    "Whether L2 still holds what tiles need again hangs on little here, so the modelled bytes across HBM are"
)


def across_hbm(simulations: Iterable[Simulation]) -> str:
    """Of those that the model is not sure of, between what their DRAM bytes lie; empty if it is of all."""
    unsure = [one for one in simulations if is_wide(*one.dram_range)]
    if not unsure:
        return ""
    ends = ", ".join(f"{short(one.experiment.algorithm)} {_total(one)}" for one in unsure)
    return f"{WHY} sure only within a range: {ends}."


def _total(one: Simulation) -> str:
    return bytes_range_text(*(each.total for each in one.dram_range))
