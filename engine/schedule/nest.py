"""One kernel as a loop nest over tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.schedule.step import Step


@dataclass(frozen=True)
class Phase:
    """One kernel as a loop nest: outer blocks, and for each the range of inner blocks that it visits.

    Attributes:
        name: what the kernel does.
        outer: "query" or "key": which blocks the outer loop walks.
        first, stop: [outer blocks] int64, the inner blocks visited are first to stop - 1.
        before, each, after: steps once an outer block before its visits, once a visit, once after them.
        reverse: whether the inner blocks come from the last to the first.
        shared: one program makes the visits of all query heads that share a key head, so that `before` and
            `after` happen once a key head.
        splits: programs that share an outer block, one after the other in `first` and `stop`.
    """

    name: str
    outer: str
    first: np.ndarray
    stop: np.ndarray
    before: tuple[Step, ...] = ()
    each: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    reverse: bool = False
    shared: bool = False
    splits: int = 1

    @cached_property
    def visits(self) -> np.ndarray:
        """[outer blocks, or programs that share them] int64: how many inner blocks each visits."""
        return np.maximum(self.stop - self.first, 0)

    @cached_property
    def sums(self) -> dict[tuple[bool, bool, bool], int]:
        """What `Schedule.total` has summed over the nest so far."""
        return {}

    @property
    def steps(self) -> int:
        """How many steps the nest unrolls to."""
        around = len(self.before) + len(self.after)
        return around * len(self.visits) + len(self.each) * int(self.visits.sum())
