"""A schedule on a GPU: its kernels as blocks of threads, their order, how many an SM holds. Built once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from engine.algorithms import Algorithm, Part, Pipeline
from engine.experiment import Experiment
from engine.model.occupancy import blocks_per_sm
from engine.problem.cache import cached
from engine.problem.gpu import Gpu, Reached
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import HEAD, OUTER, ROWS, TILE, Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Tensor

NATURAL, HEAVY_FIRST = "natural", "heavy first"
ORDERS = (HEAVY_FIRST, NATURAL)  # of a head's query blocks


@dataclass(frozen=True)
class Kernel:
    """One kernel's blocks of threads; where these stay on their SM and draw tiles (flash3), its tiles.

    >>> (kernel,) = launch(Experiment.of(seq=1024, heads=16, causal=True)).kernels
    >>> kernel.blocks, kernel.resident
    (256, 4)
    """

    phase: Phase  # its loop nest
    heads: int  # that have the same blocks; key heads where one block serves all that share one
    count: int  # blocks of each
    together: int  # heads whose blocks are launched together where the heaviest go first
    resident: int  # blocks that share an SM
    group: int  # query heads of each of `heads`

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

    def names(self, order: str, schedule: Schedule) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(head, query block, key block) of all blocks in launch order, as `Timeline` has them."""
        head, block = self.launched(order, 0, self.blocks)
        head, none = head * self.group, np.full(self.blocks, -1)
        if self.phase.launched == TILE:
            across = schedule.grid[1]
            return head, block // across, block % across
        if self.phase.launched == ROWS:
            return head, block * self.phase.rows // schedule.tiling.block_q, none
        if self.phase.launched == HEAD:
            return head, none, none
        if self.phase.splits > 1:
            return head, block // self.phase.splits, block % self.phase.splits
        return (head, block, none) if self.phase.outer == "query" else (head, none, block)


@dataclass(frozen=True, eq=False)
class Launch:
    """An algorithm's schedule on a GPU.

    `launch(Experiment())` has one kernel of 256 blocks, of which an SM holds 4.
    """

    algorithm: Algorithm  # its record
    problem: Problem  # what is computed, over batch and heads
    gpu: Gpu  # where
    schedule: Schedule  # the loop nests of one head
    pipeline: Pipeline  # what its kernels do at the same time

    @classmethod
    def of(cls, algorithm: Algorithm, problem: Problem, tiling: Tiling, gpu: Gpu) -> Launch:
        """An algorithm in a tiling, be it its own or another's."""
        return cls(algorithm, problem, gpu, _shared(algorithm.schedule(problem, tiling)), algorithm.pipeline)

    @property
    def reached(self) -> Reached:
        """What the GPU reaches."""
        return self.gpu.reached

    @property
    def tiling(self) -> Tiling:
        """The tiling that runs."""
        return self.schedule.tiling

    @cached_property
    def parts(self) -> Mapping[str, tuple[Part, ...]]:
        """The tiles that each kernel holds on the chip at once, by its name."""
        found = self.algorithm.parts(self.problem, self.tiling)
        if not self.problem.latent:
            return found
        return {
            name: _without_v(parts) if any(part.tensor == Tensor.K for part in parts) else parts
            for name, parts in found.items()
        }

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """Its kernels, one after another."""
        return tuple(self._kernel(phase) for phase in self.schedule.phases)

    @property
    def blocks(self) -> int:
        """Blocks of threads of all kernels."""
        return sum(kernel.blocks for kernel in self.kernels)

    def start(self, phase: Phase) -> float:
        """Seconds from the kernel before; blocks that are there when it ends wait for what it wrote alone."""
        ready = phase.name == "combine" and self.gpu.device.tma
        return self.reached.latency + self.reached.l2_latency if ready else self.reached.launch

    @property
    def order(self) -> str:
        """The order in which its kernels launch a head's blocks."""
        unequal = not self.problem.mask.looks_ahead
        return HEAVY_FIRST if unequal and self.algorithm.heavy_first else NATURAL

    def _kernel(self, phase: Phase) -> Kernel:
        problem = self.problem
        return Kernel(
            phase,
            problem.batch * (problem.kv_heads if phase.shared else problem.heads),
            _count(self.schedule, phase),
            self.algorithm.heads_together(problem, self.tiling),
            blocks_per_sm(self.algorithm, self.schedule, phase, self.gpu),
            problem.group if phase.shared else 1,
        )


def _shared(schedule: Schedule) -> Schedule:
    """The schedule where K is V, too: a kernel that loads K loads no V, and stores no gradient of it."""
    if not schedule.problem.latent:
        return schedule
    phases = []
    for phase in schedule.phases:
        loads = {step.tensor for step in phase.before + phase.each if step.operation == Operation.LOAD}
        parts = ("before", "each", "after") if Tensor.K in loads else ()
        phases.append(replace(phase, **{part: _without_v(getattr(phase, part)) for part in parts}))
    return replace(schedule, phases=tuple(phases))


def _without_v(moving: tuple) -> tuple:
    """Steps, or parts of what lies on the chip, without those of V and of its gradient."""
    return tuple(each for each in moving if each.tensor not in (Tensor.V, Tensor.D_V))


def _count(schedule: Schedule, phase: Phase) -> int:
    """Blocks of threads of one head."""
    counts = {
        HEAD: lambda: 1,
        TILE: lambda: phase.programs.all_visits,
        ROWS: lambda: -(-schedule.problem.seq_q // phase.rows),
        OUTER: lambda: phase.programs.count,
    }
    return counts[phase.launched]()


@cached(most=64, most_bytes=64 * 2**20)
def launch(experiment: Experiment) -> Launch:
    """An experiment on its GPU; a schedule can have arrays of megabytes."""
    return Launch.of(experiment.record, experiment.problem, experiment.tiling, experiment.gpu)


def schedule_of(experiment: Experiment) -> Schedule:
    """The loop nests of one head of an experiment."""
    return launch(experiment).schedule
