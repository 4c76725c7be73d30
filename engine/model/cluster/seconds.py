"""How long a spread problem takes: rounds of computing beside transfers, by closed forms whatever the GPUs.

A ring's round is as long as the longer of the two; gathered keys and exchanged heads come in groups of heads,
of which the first is waited for.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from engine.model.cluster.fabric import way
from engine.model.cluster.kernel import BACKWARD, kernel_seconds, lasting, one_gpu_seconds
from engine.model.cluster.spread import ALL_TO_ALL, TWO_LEVEL, Spread
from engine.problem.hardware import GPUS
from kernels.tilings.methods import TAIL

MERGING_SHARE = 0.7292  # of device memory's peak, that merging and packing reach
FORWARD_BYTES, BACKWARD_BYTES = 1, 2  # of K and V alone; and dK and dV back to their owners


@dataclass(frozen=True)
class Rounds:
    """A ring's rounds: `first` computes the GPU's own block, the others another's; each beside a transfer.

    Seconds: of computing, of the transfer under way meanwhile, and `loss` of it that computing loses.
    """

    count: int
    first: float
    other: float
    transfer: float
    loss: float

    def beside(self, computing: float) -> float:
        """Seconds of computing beside a transfer."""
        return computing + self.loss * min(computing, self.transfer)

    def length(self, number: int) -> float:
        """Seconds of a round; the last has no transfer beside it."""
        computing = self.first if number == 0 else self.other
        return computing if number == self.count - 1 else max(self.beside(computing), self.transfer)

    @property
    def seconds(self) -> float:
        """Of all rounds."""
        if self.count == 1:
            return self.first
        return self.length(0) + (self.count - 2) * self.length(1) + self.other


@dataclass(frozen=True)
class Stages:
    """Groups of heads: a stage brings one while the one before is computed. Seconds are of all groups."""

    groups: int
    computing: float
    transfer: float

    @property
    def length(self) -> float:
        """Of a stage."""
        return max(self.computing, self.transfer) / self.groups

    @property
    def seconds(self) -> float:
        """From the first transfer to the last computing (or the last transfer back)."""
        return (self.transfer + self.computing) / self.groups + (self.groups - 1) * self.length


@dataclass(frozen=True)
class ClusterTime:
    """A modelled pass."""

    spread: Spread
    seconds: float  # of the GPUs, which a CUDA graph leaves alone
    one_gpu: float  # the same problem on one GPU

    @property
    def efficiency(self) -> float:
        """One GPU's seconds over the GPUs' together."""
        return self.one_gpu / (self.spread.gpus * self.seconds)


def computing(spread: Spread, backward: bool = False) -> tuple[float, float]:
    """Seconds of a ring's first round and of a later one, on the GPU that computes most in it."""
    times = longer(spread, backward)
    return tuple(times * alone for alone in _alone(spread))


def longer(spread: Spread, backward: bool = False) -> float:
    """How many times as long each of a ring's calls takes as alone and forward: what a GPU's power leaves."""
    problem, rows, (first, other) = spread.problem, spread.rows, _alone(spread)
    forward, times = first + (spread.gpus - 1) * other, BACKWARD if backward else 1
    return lasting(problem, spread.hardware, rows, rows, problem.mask.causal, times * forward) / forward


def _alone(spread: Spread) -> tuple[float, float]:
    """Seconds of the call of a ring's first round and of a later one, each alone and forward."""
    problem, rows, half = spread.problem, spread.rows, -(-spread.rows // 2)
    causal = problem.mask.causal
    of = partial(kernel_seconds, problem, spread.hardware)
    if causal and spread.zigzag:
        return of(rows, rows, True), max(of(rows, half, False), of(half, rows, False))
    return of(rows, rows, causal), of(rows, rows, False)


def work_shares(spread: Spread) -> list[float]:
    """What each GPU computes of gathered keys or exchanged heads, as a share of what the busiest does."""
    if spread.method == ALL_TO_ALL or spread.zigzag or not spread.problem.mask.causal:
        return [1.0] * spread.gpus
    edges = spread.order.edges(spread.problem.seq_q)
    seen = np.diff(edges * (edges + 1))
    return (seen / seen.max()).tolist()


def merging(spread: Spread) -> float:
    """Seconds in which a ring's partial results, one per round, become one."""
    moved = (spread.gpus + 1) * spread.rows * spread.problem.heads * spread.row
    return moved / _memory(spread)


def packing(spread: Spread) -> float:
    """Seconds in which all that is exchanged is laid out for the way, and back: read and written twice."""
    return 2 * 2 * spread.link_bytes / _memory(spread)


def spans(spread: Spread) -> int:
    """Calls of the kernel for a group of gathered heads."""
    return 2 if spread.zigzag and not spread.problem.mask.looks_ahead else 1


def rounds(spread: Spread, backward: bool = False) -> Rounds:
    """Of a ring."""
    first, other = computing(spread, backward)
    times = BACKWARD_BYTES if backward else FORWARD_BYTES
    transfer = spread.way.seconds(times * spread.block)
    return Rounds(spread.gpus, first, other, transfer, spread.way.loss)


def staged_computing(spread: Spread, backward: bool = False) -> float:
    """Seconds of the kernel on the GPU that computes most, all groups of heads, call by call."""
    problem, ways = spread.problem, spread.groups * (spread.gpus if spread.method == ALL_TO_ALL else 1)
    part = replace(problem, heads=problem.heads // ways, kv_heads=problem.kv_heads // ways)
    calls = [
        (part, spread.hardware, *shape, not problem.mask.looks_ahead) for shape in _staged_shapes(spread)
    ]
    alone = spread.groups * sum(kernel_seconds(*call) for call in calls)
    return lasting(*calls[-1], alone * (BACKWARD if backward else 1))


def _staged_shapes(spread: Spread) -> list[tuple[int, int]]:
    """Queries and keys of each call for a group of heads, on the GPU that computes most."""
    tokens = spread.problem.seq_q
    if spread.method == ALL_TO_ALL:
        return [(tokens, tokens)]
    rows = -(-spread.rows // spans(spread))
    if spans(spread) == 1:
        return [(rows, tokens)]
    return [(rows, rows), (rows, tokens)]  # the first GPU's: its early chunk sees few, its late one many


def stages(spread: Spread, backward: bool = False) -> Stages:
    """Of gathered keys or exchanged heads; what NCCL costs the computing is in it."""
    whole = staged_computing(spread, backward)
    times = BACKWARD_BYTES if backward and spread.method != ALL_TO_ALL else 1
    transfer = spread.way.seconds(times * spread.link_bytes) if spread.link_bytes else 0.0
    return Stages(spread.groups, whole + spread.way.loss * transfer, transfer)


def modelled(spread: Spread, backward: bool = False) -> ClusterTime:
    """The modelled time of a pass, forward or backward alone; as fast for 10,000 GPUs as for two."""
    one = one_gpu_seconds(spread.problem, spread.hardware, backward)
    return ClusterTime(spread, one if spread.gpus == 1 else _seconds(spread, backward), one)


def _seconds(spread: Spread, backward: bool) -> float:
    if spread.method == TWO_LEVEL:
        return turns(spread, backward).seconds + merging(spread)
    if spread.by_steps:
        return rounds(spread, backward).seconds + spread.gpus * TAIL + merging(spread)
    found = stages(spread, backward)
    if spread.method == ALL_TO_ALL:
        return found.seconds + found.groups * TAIL + packing(spread)
    return found.seconds + found.groups * spans(spread) * TAIL


@dataclass(frozen=True)
class Turns:
    """A ring of hosts: in a turn a host's blocks pass once around its GPUs, the next's come meanwhile."""

    # hosts, size: of GPUs
    hosts: int
    size: int
    inside: Rounds  # the rounds of a turn
    across: float  # seconds of the transfer between hosts, by every network card at once

    @property
    def round(self) -> float:
        """Seconds of a round within a host."""
        return self.inside.length(1) + TAIL

    @property
    def length(self) -> float:
        """Seconds of a turn that brings another host's blocks."""
        return max(self.size * self.round, self.across)

    @property
    def seconds(self) -> float:
        """Of all turns; the last brings nothing."""
        return (self.hosts - 1) * self.length + self.size * self.round


def turns(spread: Spread, backward: bool = False) -> Turns:
    """Of a ring of hosts."""
    size, times = min(spread.fabric.host, spread.gpus), BACKWARD_BYTES if backward else FORWARD_BYTES
    inside = way(spread.fabric, size, True)
    other = computing(spread, backward)[1]
    rounds_inside = Rounds(size + 1, other, other, inside.seconds(times * spread.block), inside.loss)
    across = way(spread.fabric, size + 1, False) if size == spread.fabric.host else inside
    return Turns(spread.fabric.hosts(spread.gpus), size, rounds_inside, across.seconds(times * spread.block))


def _memory(spread: Spread) -> float:
    return MERGING_SHARE * GPUS[spread.hardware].memory_bytes_per_second
