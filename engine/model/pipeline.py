"""What a kernel's doing several things at once spares it; modelled."""

from __future__ import annotations

from engine.algorithms import Pipeline

UNITS_POWER = 2.5  # the norm in which products and softmax at the same time add; fitted to flash3 on an H200


def arithmetic_seconds(pipeline: Pipeline, products: float, softmax: float) -> float:
    """Seconds of a block's matrix products and softmax together."""
    if not pipeline.overlapped:
        return products + softmax
    return side_by_side(products, softmax)


def side_by_side(one: float, other: float) -> float:
    """Seconds of what two units do at the same time for warps that need both in turn."""
    return in_norm(one, other, UNITS_POWER)


def in_norm(one, other, power: float):
    """Seconds, or arrays of them, of two that hide under one another in part: 1 adds them, more hide more."""
    return (one**power + other**power) ** (1 / power)


def with_copies(pipeline: Pipeline, arithmetic: float, copies: float) -> float:
    """Seconds of the arithmetic and of its copies together, once they run."""
    return max(arithmetic, copies) if pipeline.asynchronous else arithmetic + copies
