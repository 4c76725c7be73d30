"""One kernel as a loop nest over tiles."""

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np

from engine.schedule.programs import Programs
from engine.schedule.step import Operation, Step, Tensor

OUTER, HEAD, TILE, ROWS = "outer block", "head", "tile", "rows"  # what a block of threads is launched for


@dataclass(frozen=True)
class Phase:
    """One kernel as a loop nest: outer blocks, and for each the range of inner blocks that it visits.

    >>> from engine import Experiment, simulate
    >>> (phase,) = simulate(Experiment.of(seq=128, causal=True)).schedule.phases
    >>> phase.outer, phase.visits.tolist(), phase.steps
    ('query', [1, 2], 24)
    """

    name: str  # what the kernel does
    outer: str  # "query" or "key": which blocks the outer loop walks
    programs: Programs  # outer blocks, what each visits, and who shares one
    # before, each, after: steps once an outer block before its visits, once a visit, once after them
    before: tuple[Step, ...] = ()
    each: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    reverse: bool = False  # whether the inner blocks come from the last to the first
    # [programs] int64, boxes of inner rows that are copied for each, where they begin elsewhere than the
    # inner blocks do; None: one a visit
    boxes: np.ndarray | None = None
    # one program makes the visits of all query heads that share a key head, so that `before` and `after`
    # happen once a key head
    shared: bool = False
    # a block of threads computes an outer block (or a split of it), a whole head, one tile, or some rows:
    # OUTER, HEAD, TILE or ROWS
    launched: str = OUTER
    rows: int = 0  # how many, of ROWS
    round_trips: int = 0  # to memory, one after another, of a block without visits
    warps: int = 0  # of a block, where they do not go by its rows; 0: they do
    stages: int = 0  # tiles in flight, at most, where they are not the algorithm's; 0: they are

    splits = property(attrgetter("programs.splits"), doc="Programs that share an outer block.")

    @property
    def first(self) -> np.ndarray:
        """[programs] int64: the first inner block that each visits."""
        return self.programs.listed[0]

    @property
    def stop(self) -> np.ndarray:
        """[programs] int64: one past the last."""
        return self.programs.listed[1]

    @cached_property
    def visits(self) -> np.ndarray:
        return np.maximum(self.stop - self.first, 0)

    def boxes_at(self, program, inner):
        """How many boxes a visit copies: one; at the first inner block also what is more or less of them."""
        if self.boxes is None:
            return 1
        return 1 + (self.boxes - self.visits)[program] * (inner == self.first[program])

    @cached_property
    def loaded(self) -> frozenset[Tensor]:
        return frozenset(step.tensor for step in self.each if step.operation == Operation.LOAD)

    @cached_property
    def rewritten(self) -> frozenset[Tensor]:
        """What each visit loads and stores again."""
        return self.loaded & {step.tensor for step in self.each if step.operation == Operation.STORE}

    @cached_property
    def sums(self) -> dict[tuple[bool, bool, bool], int]:
        return {}

    @property
    def steps(self) -> int:
        """How many steps the nest unrolls to."""
        around = len(self.before) + len(self.after)
        return around * self.programs.count + len(self.each) * self.programs.all_visits
