"""The programs of a loop nest and the inner blocks that each visits: summed in closed form, listed if asked.

A link may ask for 67 million programs. So outer blocks that visit the same stand once, with how many there
are, and what the programs that share an outer block take of it is computed for those that are looked at.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

MOST_LISTED = 2**17  # programs that are looked at one by one


class Share(Protocol):
    """How the programs that share an outer block divide what it visits."""

    def of(self, first, stop, outer, program) -> tuple[np.ndarray, np.ndarray]:
        """First and one past the last inner block of a program, counted from 0, of an outer block."""

    def filled(self, first, stop) -> np.ndarray:
        """How many of an outer block's programs have something to visit; it visits at least one block."""


@dataclass(frozen=True)
class Programs:
    """Programs by outer block, and of one outer block one after another."""

    # first, stop: [runs] int64, inner blocks that an outer block of the run visits: first to stop - 1
    first: np.ndarray
    stop: np.ndarray
    # [runs] int64, outer blocks of the run, one after another; None: one each
    alike: np.ndarray | None = None
    splits: int = 1  # programs that share an outer block
    share: Share | None = None  # how; None where it is one

    @cached_property
    def times(self) -> np.ndarray:
        """[runs] int64: outer blocks of each."""
        return np.ones(len(self.first), np.int64) if self.alike is None else self.alike

    @cached_property
    def visits(self) -> np.ndarray:
        """[runs] int64: inner blocks that all programs of an outer block visit together."""
        return np.maximum(self.stop - self.first, 0)

    @cached_property
    def outer_blocks(self) -> int:
        return int(self.times.sum())

    @property
    def count(self) -> int:
        return self.outer_blocks * self.splits

    @cached_property
    def all_visits(self) -> int:
        return int((self.visits * self.times).sum())

    @cached_property
    def filled(self) -> int:
        """Programs that have something to visit."""
        some = self.visits > 0
        if self.share is None:
            return int(self.times[some].sum())
        return int((self.share.filled(self.first[some], self.stop[some]) * self.times[some]).sum())

    def at(self, program: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and one past the last inner block of programs; equal, or less, where one visits none."""
        outer = program if self.splits == 1 else program // self.splits
        run = outer if self.alike is None else np.searchsorted(self._ends, outer, side="right")
        whole = self.first[run], self.stop[run]
        return whole if self.share is None else self.share.of(*whole, outer, program % self.splits)

    @cached_property
    def listed(self) -> tuple[np.ndarray, np.ndarray]:
        """The same of every program: for few."""
        if self.alike is None and self.share is None:
            return self.first, self.stop
        return self.at(np.arange(self.count))

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum(self.times)
