"""Which tile requests reach DRAM: modelled, from the order in which the SMs take a schedule's programs.

Bytes that were used before are still in L2 unless too much was used since. That is counted in shares of the
cache: what all SMs use, K and V, lies in both of its halves and counts against `Gpu.l2_effective_bytes`; what
one SM uses alone counts against `Gpu.l2_bytes`. The cache is hashed and not quite least-recently-used: the
chance that bytes are gone rises smoothly around GONE. What lies dirty in L2 at the end counts as written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.bytes import Bytes
from engine.experiment import Experiment
from engine.grid import Grid, default_order
from engine.occupancy import blocks_per_sm
from engine.reuse import Programs, Reuse, walk
from engine.schedule import Operation, Phase, Schedule, Tensor, block_bytes

GONE = 0.8  # share of the cache used since, at which half of the bytes are gone; fitted to an H200's counters
SOFTNESS = 0.06  # of that share, in which the odds change by a factor e; likewise
NEVER_GONE = 0.4  # share below which all is still there; at it one byte in 800 is gone
CHUNKS = 32  # a head's K and V are cut into at most so many
MOST_STEPS = 256  # that the programs are followed; those after them are taken to go on alike
MOMENTS = 8  # of a kernel, at which what the kernel before it left is looked at


def gone(share):
    """The chance that bytes are no longer in L2 when such a share of it was used since."""
    share = np.asarray(share, float)
    return np.where(share < NEVER_GONE, 0.0, 1 / (1 + np.exp((GONE - share) / SOFTNESS)))


def dram_bytes(
    experiment: Experiment,
    schedule: Schedule,
    kernels: Sequence[Bytes],
    requested: Bytes,
    emptied: bool = False,
) -> Bytes:
    """Modelled DRAM bytes over batch and heads, by tensor.

    Args:
        kernels: the compulsory bytes of every phase.
        requested: the tile requests; no more than these reach DRAM.
        emptied: whether the caches are emptied before every kernel, as a profiler does; otherwise a kernel
            finds what the one before it left.
    """
    read, written = (dict.fromkeys(Tensor, 0.0) for _ in range(2))
    for index, phase in enumerate(schedule.phases):
        again, rewritten = _fetched_again(experiment, schedule, phase)
        for tensor, amount in kernels[index].read.items():
            found = 0.0 if emptied or not amount else _found(experiment, schedule, kernels, index, tensor)
            read[tensor] += amount * (1 - found) + again.get(tensor, 0.0)
        for tensor, amount in kernels[index].written.items():
            written[tensor] += amount + rewritten.get(tensor, 0.0)
    return Bytes.of(
        {tensor: min(round(read[tensor]), amount) for tensor, amount in requested.read.items()},
        {tensor: min(round(written[tensor]), amount) for tensor, amount in requested.written.items()},
    )


def _found(
    experiment: Experiment, schedule: Schedule, kernels: Sequence[Bytes], index: int, tensor: Tensor
) -> float:
    """The share of a tensor that a kernel finds in L2, because one before it used it."""
    users = [before for before in range(index) if tensor in _tensors(schedule.phases[before])]
    if not users:
        return 0.0
    between = sum(kernel.total for kernel in kernels[users[-1] + 1 : index])
    moments = (np.arange(MOMENTS) + 0.5) / MOMENTS  # both kernels go through the heads in the same order
    since = (1 - moments) * kernels[users[-1]].total + between + moments * kernels[index].total
    return float(1 - gone(since / experiment.gpu.l2_effective_bytes).mean())


def _tensors(phase: Phase) -> set[Tensor]:
    """What a kernel loads or stores."""
    return {step.tensor for step in phase.before + phase.each + phase.after}


def _fetched_again(
    experiment: Experiment, schedule: Schedule, phase: Phase
) -> tuple[dict[Tensor, float], dict[Tensor, float]]:
    """Bytes that one kernel, the caches empty before it, reads beyond the first time, and writes likewise."""
    loaded, stored = (
        {step.tensor for step in phase.each if step.operation == operation}
        for operation in (Operation.LOAD, Operation.STORE)
    )
    if loaded & stored:
        return _rewritten(experiment, schedule, phase, loaded, stored)
    walked = {tensor for tensor in loaded if _is_walked(schedule, phase, tensor)}
    if not walked:
        return {}, {}
    again = _walked_again(experiment, schedule, phase, walked)
    row = {tensor: block_bytes(schedule.problem, tensor).factor for tensor in walked}
    return {tensor: again * row[tensor] / sum(row.values()) for tensor in walked}, {}


def _is_walked(schedule: Schedule, phase: Phase, tensor: Tensor) -> bool:
    """Whether the inner loop walks over a tensor that other outer blocks walk over too."""
    amount = block_bytes(schedule.problem, tensor)
    by_inner, by_outer = (amount.by_key, amount.by_query)[:: 1 if phase.outer == "query" else -1]
    return by_inner and not by_outer


def _rewritten(
    experiment: Experiment, schedule: Schedule, phase: Phase, loaded: set[Tensor], stored: set[Tensor]
) -> tuple[dict[Tensor, float], dict[Tensor, float]]:
    """What each visit loads and stores again: one program a head, to which its rows are its own."""
    problem = schedule.problem
    heads, slots = problem.batch * problem.heads, _slots(experiment, schedule, phase)
    ends = np.concatenate(([0], np.cumsum(schedule.query_rows)))
    rows = np.where(phase.visits > 0, ends[phase.stop] - ends[phase.first], 0)
    row = {tensor: block_bytes(problem, tensor).factor for tensor in loaded | stored}
    full, rest = divmod(heads, slots)
    again = 0.0
    for together, times in ((slots, full), (rest, 1)):
        # since a row's last pass, as many rows as a pass has have gone by, of every head that runs
        share = together * rows[1:] * sum(row.values()) / experiment.gpu.l2_bytes
        again += times * together * float((rows[1:] * gone(share)).sum())
    return {tensor: again * row[tensor] for tensor in loaded}, {
        tensor: again * row[tensor] for tensor in stored
    }


def _slots(experiment: Experiment, schedule: Schedule, phase: Phase) -> int:
    """Blocks of threads of a kernel that run at once."""
    return experiment.gpu.sms * blocks_per_sm(experiment, schedule, phase)


@dataclass(frozen=True)
class _Launch:
    """A kernel's programs: how many, how they share an SM, and the chunks of their streams in bytes."""

    programs: Programs
    count: int
    places: int
    sizes: np.ndarray


def _walked_again(experiment: Experiment, schedule: Schedule, phase: Phase, walked: set[Tensor]) -> float:
    """Bytes of the walked tensors that are fetched beyond the first time."""
    gpu = experiment.gpu
    launch = _launch(experiment, schedule, phase, walked)
    slots = min(gpu.sms * launch.places, launch.count)
    if launch.count <= slots:
        return 0.0
    near = launch.programs.stream[: 2 * slots]
    own = launch.programs.own_bytes + launch.programs.visit_bytes * len(launch.sizes)
    most = len(np.unique(near)) * launch.sizes.sum() / gpu.l2_effective_bytes + 2 * slots * own / gpu.l2_bytes
    if most < NEVER_GONE:
        return 0.0
    reuse = walk(launch.programs, launch.sizes, gpu.sms, launch.places, MOST_STEPS)
    beyond = (launch.count - slots) / max(1.0, reuse.walked - slots)
    return beyond * refetched(reuse, gpu.l2_effective_bytes, gpu.l2_bytes)


def refetched(reuse: Reuse, shared_capacity: int, own_capacity: int) -> float:
    """Bytes that are gone when they are used again."""
    return float((reuse.size * gone(reuse.shared / shared_capacity + reuse.own / own_capacity)).sum())


def _launch(experiment: Experiment, schedule: Schedule, phase: Phase, walked: set[Tensor]) -> _Launch:
    """The programs of a kernel that can be reached, in launch order; a chunk is whole inner blocks."""
    problem, tiling = schedule.problem, schedule.tiling
    by_query = phase.outer == "query"
    block, length = (tiling.block_kv, problem.seq_kv) if by_query else (tiling.block_q, problem.seq_q)
    outer_rows = tiling.block_q if by_query else tiling.block_kv
    blocks = -(-length // block)  # of the inner loop
    together = -(-blocks // CHUNKS)  # inner blocks to a chunk
    chunks = -(-blocks // together)
    row = sum(block_bytes(problem, tensor).factor for tensor in walked)
    starts = np.arange(chunks) * together * block
    sizes = np.minimum(together * block, length - starts) * row
    places = blocks_per_sm(experiment, schedule, phase)
    if any(step.operation == Operation.STORE for step in phase.each):  # each visit is a program of its own
        places = max(1, places // blocks)
    heads = problem.batch * (problem.kv_heads if phase.shared else problem.heads)
    count = heads * len(phase.first)
    reached = min(count, experiment.gpu.sms * places * (MOST_STEPS + 1))
    grid = Grid(experiment, phase, heads, len(phase.first), Grid.of(experiment, phase).together)
    head, outer = grid.launched(default_order(experiment), 0, reached)
    group = 1 if phase.shared or not by_query else problem.heads // problem.kv_heads
    own = {step.tensor for step in phase.before + phase.after} - {Tensor.NONE}
    each = {step.tensor for step in phase.each} - walked - own - {Tensor.NONE}
    programs = Programs(
        stream=head // group,
        first=phase.first[outer] // together,
        stop=-(-phase.stop[outer] // together),
        reverse=phase.reverse,
        own_bytes=sum(block_bytes(problem, tensor).of(outer_rows, outer_rows) for tensor in own),
        visit_bytes=sum(
            block_bytes(problem, tensor).of(*_tile(phase, outer_rows, together * block)) for tensor in each
        ),
    )
    return _Launch(programs, count, places, sizes)


def _tile(phase: Phase, outer_rows: int, inner_rows: int) -> tuple[int, int]:
    """(query rows, key rows) of what a program visits at once."""
    return (outer_rows, inner_rows) if phase.outer == "query" else (inner_rows, outer_rows)
