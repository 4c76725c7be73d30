"""What a recording has of masks, terms and other head dims of V: times beside the plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.problem.flops import pair_flops
from engine.recordings.recording import Recording
from engine.recordings.timing import VariantTiming


@dataclass(frozen=True)
class VariantCost:
    """A recorded row beside the plain one that was timed in turns with it.

    Attributes:
        row: it, with a time.
        plain: the other.
        commit: of the project when they were recorded.
    """

    row: VariantTiming
    plain: VariantTiming
    commit: str

    @property
    def seen(self) -> float:
        """Share of all pairs of a query and a key that it leaves."""
        return seen(self.row)

    @property
    def over(self) -> float:
        """Its FLOP/s over those of the plain row, each counted on the pairs that it leaves."""
        return self.row.tflops / self.plain.tflops

    @property
    def fewer(self) -> float:
        """How many times fewer pairs it leaves than the plain row."""
        return seen(self.plain) / self.seen

    @property
    def faster(self) -> float:
        """How many times less time it takes."""
        return self.plain.times.p50 / self.row.times.p50


def variant_costs(recording: Recording, direction: str) -> tuple[VariantCost, ...]:
    """Every row of a direction that has a time, in the file's order."""
    rows = [row for row in recording.variants if row.direction == direction and row.times is not None]
    found = []
    for row in rows:
        plain = beside(row, rows)
        if plain is not None:
            commit = row.commit or recording.device.commit
            found.append(VariantCost(row, plain, commit))
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
