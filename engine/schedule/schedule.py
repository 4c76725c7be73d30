"""What happens, in order: loop nests over tiles, and the columns of every step that they unroll to."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.problem.bounds import KeyBounds, block_rows, blocks
from engine.problem.problem import Problem, Tiling
from engine.schedule.columns import Columns, unroll
from engine.schedule.nest import Phase
from engine.schedule.step import Amount, Operation, Step, Tensor, block_amounts


@dataclass(frozen=True)
class Schedule:
    """One head's work as loop nests. It knows no numbers of the matrices; equal heads are a factor.

    >>> from engine import Experiment, simulate
    >>> schedule = simulate(Experiment.of(seq=128, causal=True)).schedule
    >>> schedule.grid, schedule.steps == len(schedule.columns)
    ((2, 2), True)
    """

    problem: Problem
    tiling: Tiling
    phases: tuple[Phase, ...]
    bounds: KeyBounds

    @cached_property
    def query_rows(self) -> np.ndarray:
        return block_rows(self.problem.seq_q, self.tiling.block_q)

    @cached_property
    def key_rows(self) -> np.ndarray:
        return block_rows(self.problem.seq_kv, self.tiling.block_kv)

    @property
    def grid(self) -> tuple[int, int]:
        """Query blocks and key blocks."""
        problem, tiling = self.problem, self.tiling
        return blocks(problem.seq_q, tiling.block_q), blocks(problem.seq_kv, tiling.block_kv)

    @cached_property
    def amounts(self) -> Mapping[Tensor, Amount]:
        """Bytes that one load or store of a block moves, by tensor."""
        return block_amounts(self.problem)

    @property
    def steps(self) -> int:
        """How many steps one head takes; needs no columns."""
        return sum(phase.steps for phase in self.phases)

    @cached_property
    def columns(self) -> Columns:
        """The loop nests unrolled: every step in order."""
        return unroll(self)

    @cached_property
    def by_operation(self) -> Mapping[Operation, list[tuple[Phase, Step, bool]]]:
        """Every step of an operation, with its phase, and whether it is taken once a visit."""
        found = defaultdict(list)
        for phase in self.phases:
            for steps, each in ((phase.before + phase.after, False), (phase.each, True)):
                for step in steps:
                    found[step.operation].append((phase, step, each))
        return found

    def total(self, amount: Amount, operation: Operation) -> int:
        """Sum of an amount over every step of an operation, one head, from the loop nests."""
        return sum(self.step_total(amount, *where) for where in self.by_operation.get(operation, ()))

    def step_total(self, amount: Amount, phase: Phase, step: Step, each: bool) -> int:
        """Sum of an amount over a phase's visits, or over its outer blocks; many amounts share a sum."""
        way = amount.by_query, amount.by_key, each, step.boxed
        if way not in phase.sums:
            phase.sums[way] = self._summed(phase, *way)
        return step.times * amount.factor * phase.sums[way]

    def _summed(self, phase: Phase, by_query: bool, by_key: bool, each: bool, boxed: bool) -> int:
        """That sum for a factor of 1, in O(runs of alike outer blocks); of whole blocks where boxed."""
        programs = phase.programs
        # an amount goes by rows of the outer blocks, of the inner ones, of both or of neither
        by_outer, by_inner = (by_query, by_key) if phase.outer == "query" else (by_key, by_query)
        if boxed:  # as if every block were whole
            sizes = [block for _, block in self._lengths(phase)]
            weights = programs.times * (sizes[0] if by_outer else 1)
            boxes = programs.visits if phase.boxes is None else phase.boxes
            boxes = boxes if each else programs.splits
            return int((weights * boxes * (sizes[1] if by_inner else 1)).sum())
        weights = self.outer_rows(phase) if by_outer else programs.times
        if each:  # once a visit; else once an outer block and split
            return int((weights * (self.rows_passed(phase) if by_inner else programs.visits)).sum())
        return int(weights.sum()) * programs.splits * (self._lengths(phase)[1][0] if by_inner else 1)

    def outer_rows(self, phase: Phase) -> np.ndarray:
        """[runs of outer blocks] int64: rows of all outer blocks of each."""
        (length, block), times = self._lengths(phase)[0], phase.programs.times
        rows = times * block
        rows[-1] -= int(times.sum()) * block - length  # the last may be ragged
        return rows

    def rows_passed(self, phase: Phase) -> np.ndarray:
        """[runs of outer blocks] int64: rows of the inner blocks that each outer block visits."""
        (length, block), programs = self._lengths(phase)[1], phase.programs
        passed = np.minimum(programs.stop * block, length) - np.minimum(programs.first * block, length)
        return np.where(programs.visits > 0, passed, 0)

    def _lengths(self, phase: Phase) -> tuple[tuple[int, int], tuple[int, int]]:
        """(rows, rows of a block) along the outer blocks, and along the inner ones."""
        query = self.problem.seq_q, self.tiling.block_q
        key = self.problem.seq_kv, self.tiling.block_kv
        return (query, key) if phase.outer == "query" else (key, query)
