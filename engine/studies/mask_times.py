"""What a recording has of masks, terms and other head dims of V: times beside the plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.problem.flops import pair_flops
from engine.recordings.recording import Recording, VariantTiming


@dataclass(frozen=True)
class VariantCost:
    """A recorded row beside the plain one that was timed in turns with it.

    Attributes:
        row: it, with a time.
        seen: share of all pairs of a query and a key that it leaves.
        over: its FLOP/s over those of the plain row, each counted on the pairs that it leaves.
        commit: of the project when it was recorded.
    """

    row: VariantTiming
    seen: float
    over: float
    commit: str


def variant_costs(recording: Recording, direction: str) -> tuple[VariantCost, ...]:
    """Every row of a direction that has a time, in the file's order."""
    rows = [row for row in recording.variants if row.direction == direction and row.times is not None]
    found = []
    for row in rows:
        plain = beside(row, rows)
        if plain is not None:
            commit = row.commit or recording.device.commit
            found.append(VariantCost(row, seen(row), row.tflops / plain.tflops, commit))
    return tuple(found)


def beside(row: VariantTiming, rows: Sequence[VariantTiming]) -> VariantTiming | None:
    """The plain row of its direction and commit that it is compared with: causal where it looks back only."""
    causal = not row.problem.mask.looks_ahead
    alike = (each for each in rows if (each.direction, each.commit) == (row.direction, row.commit))
    return next((each for each in alike if each.plain and each.problem.mask.causal is causal), None)


def seen(row: VariantTiming) -> float:
    """Share of all pairs of a query and a key that its mask leaves."""
    problem = row.problem
    every = 4 * problem.batch * problem.heads * problem.seq_q * problem.seq_kv * problem.head_dim
    return pair_flops(problem, row.prefix or 0) / every
