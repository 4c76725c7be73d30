"""A schedule's bytes by tensor and memory level, its FLOPs and its tiles, in O(blocks): no step is unrolled.

Requested is what the tiles ask of memory past the SM; compulsory is what each kernel must fetch and leave
once, however large its caches; DRAM is modelled in between, see `engine.model.l2`.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from engine.model import l2
from engine.model.launch import Launch
from engine.schedule.bytes import TENSORS, Bytes
from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import (
    EXPONENTIALS,
    MATRIX_PRODUCTS,
    Amount,
    Operation,
    copies,
    matrix_flops,
)


@dataclass(frozen=True)
class Counts:
    """What one head's schedule asks for."""

    requested: Bytes  # tile requests, bytes
    flops: int  # of the matrix products; 2 (d + d of V) a visited score, 8 d + 6 d of V backward
    exponentials: int  # of visited scores, and one a row and visit for alpha; backward two a visited score
    # tiles_visited, tiles_skipped: add up to the whole grid
    tiles_visited: int
    tiles_skipped: int
    # tiles_full, tiles_partial, tiles_masked: visited ones that the mask leaves whole, cuts, and blanks out
    # (only unfused attention computes those); they add up to tiles_visited
    tiles_full: int
    tiles_partial: int
    tiles_masked: int


@dataclass(frozen=True)
class Traffic:
    """Totals over batch and heads, in bytes, FLOPs and tiles.

    >>> from engine import Experiment, simulate
    >>> moved = simulate(Experiment.of(seq=2048, causal=True)).traffic
    >>> moved.requested.total_read, moved.compulsory.total_read, moved.dram.total_read
    (142606336, 12582912, 12582912)
    """

    per_head: Counts  # one head's
    heads: int  # how many, batch times heads
    requested: Bytes  # what the tiles request from L2
    compulsory: Bytes  # what each kernel must fetch and leave once
    dram: Bytes  # modelled
    dram_range: l2.DramRange  # between what they lie
    # by kernel, what it moves across HBM more than once
    refetched: tuple[l2.Refetched, ...] = field(compare=False)

    flops = property(lambda self: self.per_head.flops * self.heads, doc="Matrix FLOPs.")
    exponentials = property(lambda self: self.per_head.exponentials * self.heads, doc="Exponentials.")
    tiles_visited = property(lambda self: self.per_head.tiles_visited * self.heads, doc="Tiles computed.")
    tiles_skipped = property(
        lambda self: self.per_head.tiles_skipped * self.heads, doc="Tiles never touched."
    )
    tiles_full = property(lambda self: self.per_head.tiles_full * self.heads, doc="Visited, unmasked.")
    tiles_partial = property(lambda self: self.per_head.tiles_partial * self.heads, doc="Visited, cut.")
    tiles_masked = property(lambda self: self.per_head.tiles_masked * self.heads, doc="Visited, all masked.")

    def intensity(self, kind: str = "dram") -> float:
        """FLOPs per byte of one kind: requested, compulsory or dram."""
        if kind not in ("requested", "compulsory", "dram"):
            raise ValueError(f"kind is {kind!r}; it must be requested, compulsory or dram")
        return self.flops / getattr(self, kind).total


def traffic(launch: Launch) -> Traffic:
    """All bytes and operations of a launch, over batch and heads."""
    schedule = launch.schedule
    heads = schedule.problem.batch * schedule.problem.heads
    per_head = counts(schedule)
    requested = requested_bytes(schedule, per_head.requested)
    compulsory = compulsory_bytes(schedule)
    refetched = tuple(l2.refetched(launch, kernel) for kernel in launch.kernels)
    dram, within = l2.dram_bytes(refetched, compulsory, requested)
    return Traffic(per_head, heads, requested, compulsory, dram, within, refetched)


def requested_bytes(schedule: Schedule, per_head: Bytes | None = None) -> Bytes:
    """Tile requests over batch and heads; what a program does once for heads that share keys counts once.

    Those of one head are counted unless they are given.
    """
    problem = schedule.problem
    requested = (per_head or _requested(schedule)).times(problem.batch * problem.heads)
    around = tuple(replace(phase, each=()) for phase in schedule.phases if phase.shared)
    if not around or problem.group == 1:
        return requested
    spared = _requested(replace(schedule, phases=around)).times(
        problem.batch * (problem.heads - problem.kv_heads)
    )
    return Bytes.of(
        {tensor: amount - spared.read[tensor] for tensor, amount in requested.read.items()},
        {tensor: amount - spared.written[tensor] for tensor, amount in requested.written.items()},
    )


def _requested(schedule: Schedule) -> Bytes:
    """One head's tile requests."""
    ways = defaultdict(int), defaultdict(int)
    for operation, moved in zip((Operation.LOAD, Operation.STORE), ways, strict=True):
        for phase, step, each in schedule.by_operation.get(operation, ()):
            amount = schedule.amounts[step.tensor]
            moved[step.tensor] += schedule.step_total(amount, phase, step, each)
    return Bytes.of(*ways)


def counts(schedule: Schedule) -> Counts:
    """One head's requests, operations and tiles, from the loop nests."""
    problem, bounds = schedule.problem, schedule.bounds
    score, row = Amount(1, by_query=True, by_key=True), Amount(1, by_query=True)
    grid = math.prod(schedule.grid)
    visited = max(phase.programs.all_visits for phase in schedule.phases)
    seen = bounds.visible
    full = bounds.full
    return Counts(
        requested=_requested(schedule),
        flops=sum(
            schedule.total(matrix_flops(problem, operation), operation) for operation in MATRIX_PRODUCTS
        ),
        exponentials=schedule.total(row, Operation.RESCALE)
        + schedule.total(row, Operation.COMBINE)
        + sum(schedule.total(score, operation) for operation in EXPONENTIALS),
        tiles_visited=visited,
        tiles_skipped=grid - visited,
        tiles_full=full,
        tiles_partial=seen - full,
        tiles_masked=visited - seen,
    )


def compulsory_bytes(schedule: Schedule) -> Bytes:
    """Each kernel's inputs and outputs once, all heads; blocks that no tile touches do not count."""
    read, written = dict.fromkeys(TENSORS, 0), dict.fromkeys(TENSORS, 0)
    for phase in schedule.phases:
        around = {step.tensor for step in phase.before + phase.after}
        moves = {(step.operation, step.tensor) for step in phase.before + phase.each + phase.after}
        touched = _touched(schedule, phase)
        for operation, tensor in moves:
            if operation in (Operation.LOAD, Operation.STORE):
                times = copies(schedule.problem, tensor, schedule.tiling.splits)
                amount = schedule.amounts[tensor].of(*touched[tensor in around])
                (read if operation == Operation.LOAD else written)[tensor] += times * amount
    return Bytes.of(read, written)


def _touched(schedule: Schedule, phase: Phase) -> tuple[tuple[int, int], tuple[int, int]]:
    """(query rows, key rows) that a phase's visits touch, and that what stands around them touches."""
    by_query, rows, programs = phase.outer == "query", schedule.outer_rows(phase), phase.programs
    inner_rows, visiting = schedule.key_rows if by_query else schedule.query_rows, programs.visits > 0
    edges = np.bincount(programs.first[visiting], minlength=len(inner_rows) + 1)
    edges -= np.bincount(programs.stop[visiting], minlength=len(inner_rows) + 1)
    outer_inner = (
        (int(rows[visiting].sum()), int(inner_rows[np.cumsum(edges[:-1]) > 0].sum())),
        (int(rows.sum()), schedule.problem.seq_kv if by_query else schedule.problem.seq_q),
    )
    return tuple(each if by_query else each[::-1] for each in outer_inner)
