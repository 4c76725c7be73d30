"""What visits of tiles take an SM: one by itself, and those of several blocks that share it; modelled.

Warps wait for each other's units and for their own last results: the fewer they are, the barer stands the SM.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.algorithms import Pipeline
from engine.model.pipeline import arithmetic_seconds, with_copies
from engine.model.rates import IN_STEP, TWO_WARP_GROUPS, WAITS_ALONE, WAITS_POWER


@dataclass(frozen=True)
class Visit:
    """Seconds that a visit takes units of its SM, and what of them is hidden under one another.

    Attributes:
        tensor: the matrix products.
        softmax: exponentials and float32.
        copies: loads and stores through L2.
        issued: instructions for anything else.
        hidden: of products and softmax, run side by side by two warp groups of one block.
        waited: for what it loads, where each waits for the one before.
        groups: warp groups of a block, whose `softmax` is all their instructions; 0 where the rest is asked.
        masking: seconds more of `softmax` of a tile that the mask cuts.
        full: added to `gaps` where sums and addresses leave its threads no registers.
        waits: added to `gaps` by a warp group alone on its SM, and the power of those on it that lessens it.
    """

    tensor: float
    softmax: float
    copies: float
    issued: float
    hidden: float
    waited: float = 0.0
    groups: int = 0
    masking: float = 0.0
    full: float = 0.0
    waits: tuple[float, float] = (WAITS_ALONE, WAITS_POWER)

    def alone(self, pipeline: Pipeline) -> float:
        """Seconds of a visit on an SM that makes no other meanwhile."""
        arithmetic = arithmetic_seconds(pipeline, self.tensor, self.softmax) + self.issued - self.hidden
        return with_copies(pipeline, arithmetic, self.copies + self.waited)

    def taken(self, pipeline: Pipeline, blocks: int, rows: int, least: float = 0.0) -> float:
        """Seconds in which so many blocks of so many rows on one SM each make a visit, `least` on its own."""
        if not self.groups:
            return shared_seconds(max(least, self.alone(pipeline)), self.longest, blocks, rows)
        arithmetic = blocks * (self.tensor + self.gaps(blocks) * self.softmax)
        return with_copies(pipeline, arithmetic, blocks * self.copies)

    def gaps(self, blocks: int) -> float:
        """How many times as long as their instructions the warp groups of so many blocks on an SM take."""
        apart = blocks * (1 + IN_STEP * (self.groups - 1))
        alone, power = self.waits
        return 1 + alone / apart**power + self.full

    def cut(self, pipeline: Pipeline, blocks: int, rows: int) -> float:
        """How many times as long a visit of a tile takes that the mask cuts, so many blocks on the SM."""
        masking = blocks * self.masking * (self.gaps(blocks) if self.groups else 1.0)
        return 1 + masking / self.taken(pipeline, blocks, rows)

    @property
    def longest(self) -> float:
        """Seconds of the unit that is busiest, which no other visit can hide."""
        return max(max(self.tensor, self.softmax) + self.issued, self.copies)


def shared_seconds(alone: float, longest: float, blocks: int, rows: int) -> float:
    """Seconds in which so many blocks of so many rows on one SM each make a visit.

    Two warp groups take `alone` for theirs; all others add `longest`.
    """
    pairs = max(1.0, blocks * min(1.0, rows / TWO_WARP_GROUPS))
    return blocks * (alone + (pairs - 1) * longest) / pairs
