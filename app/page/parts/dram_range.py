"""Between what the modelled bytes across HBM lie, in a sentence, where the model is sure of no more."""

from __future__ import annotations

from collections.abc import Mapping

from app.figures.units import bytes_range_text
from engine.model.l2 import DramRange

WHY = "Here little decides whether L2 still holds what tiles need again, so the modelled bytes across HBM are"


def told(ranges: Mapping[str, DramRange]) -> str:
    """Of those that are wide, by the names of what they are of; empty if none is."""
    ends = [f"{name} {bytes_range_text(*found.total)}" for name, found in ranges.items() if found.is_wide]
    return f"{WHY} sure only within a range: {', '.join(ends)}." if ends else ""
