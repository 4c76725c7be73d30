"""The blocks of threads that a kernel is launched as, and the order in which they start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.experiment import Experiment
from engine.model.timeline import HEAVY_FIRST, NATURAL
from engine.schedule.nest import Phase

SOFTMAX_TILE = 2048  # elements of S that a block of the unfused softmax takes, in whole rows, at least one
KEYS_TOGETHER = 32 * 2**20  # bytes of K and V of the heads whose tiles flash3 takes together, heaviest first
REORDERING = (
    "flash2",
    "flash3",
    "backward",
)  # launch the heaviest blocks first where a mask makes them unequal


@dataclass(frozen=True)
class Grid:
    """One kernel's blocks of threads; where these stay on their SM and draw tiles (flash3), its tiles.

    Attributes:
        heads: that have the same blocks; key heads where one block serves all that share one.
        count: blocks of each.
        together: heads whose blocks are launched together where the heaviest go first.
    """

    experiment: Experiment
    phase: Phase
    heads: int
    count: int
    together: int

    @classmethod
    def of(cls, experiment: Experiment, phase: Phase) -> Grid:
        """How a kernel of an experiment is launched."""
        problem = experiment.problem
        heads = problem.batch * (problem.kv_heads if phase.shared else problem.heads)
        return cls(experiment, phase, heads, _count(experiment, phase), _together(experiment))

    @property
    def blocks(self) -> int:
        """Blocks of threads in all."""
        return self.heads * self.count

    def launched(self, order: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """(head, block of that head) of the blocks start to stop - 1, in launch order."""
        at = np.arange(start, stop)
        if order == NATURAL or self.phase.outer == "key" or not self.phase.each:
            return at // self.count, at % self.count
        first = at // (self.together * self.count) * self.together
        together = np.minimum(self.together, self.heads - first)
        at -= first * self.count
        return first + at % together, self.count - 1 - at // together

    def names(self, order: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(head, query block, key block) of all blocks in launch order, as `Timeline` has them."""
        problem, blocks = self.experiment.problem, self.experiment.blocks
        head, block = self.launched(order, 0, self.blocks)
        none = np.full(self.blocks, -1)
        if self.phase.shared:
            head = head * (problem.heads // problem.kv_heads)
        if self.phase.name == "scores":
            across = -(-problem.seq_kv // blocks.block_kv)
            return head, block // across, block % across
        if self.phase.name == "softmax":
            return head, block * softmax_rows(problem.seq_kv) // blocks.block_q, none
        if self.count == 1 and self.phase.outer == "key" and not self.phase.shared:
            return head, none, none
        if self.phase.name == "combine":
            return head, block // blocks.block_q, none
        if self.phase.splits > 1:
            return head, block // self.phase.splits, block % self.phase.splits
        return (head, block, none) if self.phase.outer == "query" else (head, none, block)


def default_order(experiment: Experiment) -> str:
    """The order in which an algorithm's kernels launch their blocks."""
    unequal = not experiment.problem.mask.looks_ahead
    return HEAVY_FIRST if unequal and experiment.algorithm in REORDERING else NATURAL


def softmax_rows(seq_kv: int) -> int:
    """Rows of S that a block of the unfused softmax takes."""
    return max(1, SOFTMAX_TILE >> (seq_kv - 1).bit_length())


def _count(experiment: Experiment, phase: Phase) -> int:
    """Blocks of threads of one head."""
    if experiment.algorithm == "flash1":
        return 1
    if phase.name == "scores":
        return int(phase.visits.sum())
    if phase.name == "softmax":
        return -(-experiment.problem.seq_q // softmax_rows(experiment.problem.seq_kv))
    if phase.name == "combine":  # a row each
        return experiment.problem.seq_q * experiment.problem.heads // experiment.problem.kv_heads
    return len(phase.visits)


def _together(experiment: Experiment) -> int:
    """Heads whose blocks are launched together where the heaviest go first."""
    problem = experiment.problem
    if experiment.algorithm != "flash3":
        return 1
    keys = 2 * problem.seq_kv * problem.head_dim * problem.itemsize
    return problem.heads // problem.kv_heads * max(1, KEYS_TOGETHER // keys)
