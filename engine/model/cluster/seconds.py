"""How long a spread problem takes: rounds of a ring beside transfers, whatever the GPUs, or other steps.

A ring's round is as long as the longer of the two. Gathered keys come in groups of heads, of which the first
is waited for; tokens are exchanged for heads by NCCL, and back once they are computed. GPUs go from round to
round, or from step to step, together, as long as the one that computes most takes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from engine.model.cluster.kernel import BACKWARD, kernel_seconds, lasting, one_gpu_seconds
from engine.model.cluster.spread import ALL_TO_ALL, TWO_LEVEL, Spread
from engine.problem.hardware import GPUS
from engine.problem.problem import Problem

COMPUTING, TRANSFER, NETWORK, MERGING, PACKING = KINDS = (
    "computing",
    "transfer",
    "network",  # a transfer from another host
    "merging",
    "packing",
)
MERGING_SHARE = 0.7292  # of device memory's peak, that merging and a gather of rows reach
PACKING_SHARE = 0.27  # of it, that PyTorch's copies between an order by tokens and one by heads reach
TAIL = 25e-6  # seconds of a call of the kernel: its last wave, and the gap before the next


class Step(NamedTuple):
    """From start to end, seconds, every GPU does something for a group of heads."""

    kind: str  # one of KINDS
    group: int
    start: float
    end: float


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


def modelled(spread: Spread, backward: bool = False) -> ClusterTime:
    """The modelled time of a pass, forward or backward alone; as fast for 10,000 GPUs as for two."""
    seconds = one = one_gpu_seconds(spread.problem, spread.hardware, backward)
    if spread.gpus > 1 and spread.by_steps:
        seconds = round_starts(spread, backward)[-1] + merging(spread, backward)
    elif spread.gpus > 1:
        last = steps(spread, backward)[-1]
        seconds = last.end + TAIL * len(_calls(spread)) * (last.kind == COMPUTING)
    return ClusterTime(spread, float(seconds), one)


def computing(spread: Spread, backward: bool = False) -> tuple[float, float]:
    """Seconds of a ring's first round and of a later one, on the GPU that computes most in it.

    Each call takes as many times as long as alone and forward as a GPU's power limit has them take together.
    """
    problem, rows, (first, other) = spread.problem, spread.rows, _alone(spread)
    forward, times = first + (spread.gpus - 1) * other, BACKWARD if backward else 1
    together = lasting(problem, spread.hardware, rows, rows, problem.mask.causal, times * forward)
    return first * together / forward, other * together / forward


def _alone(spread: Spread) -> tuple[float, float]:
    """Seconds of the call of a ring's first round and of a later one, each alone and forward."""
    problem, rows, half = spread.problem, spread.rows, -(-spread.rows // 2)
    causal = problem.mask.causal
    of = partial(kernel_seconds, problem, spread.hardware)
    if causal and spread.zigzag:
        return of(rows, rows, True), max(of(rows, half, False), of(half, rows, False))
    return of(rows, rows, causal), of(rows, rows, False)


def round_starts(spread: Spread, backward: bool = False) -> np.ndarray:
    """[rounds + 1] seconds at which a ring's rounds begin, and the last ends."""
    first, other = computing(spread, backward)
    inside, amount = spread.inner_way, spread.passed(backward)
    transfer = inside.seconds(amount)
    if spread.method == TWO_LEVEL:  # a host's blocks pass once around its GPUs while the next host's come
        size, number = min(spread.fabric.host, spread.gpus), np.arange(spread.gpus + 1)
        length = inside.round(other, transfer) + TAIL
        starts = number // size * max(size * length, spread.way.seconds(amount)) + number % size * length
        starts[-1] = starts[-2] + length  # nothing comes any more
        return publishing(spread) + starts
    lengths = np.full(spread.gpus, inside.round(other, transfer))
    lengths[0], lengths[-1] = inside.round(first, transfer), other
    return publishing(spread) + np.concatenate(([0.0], np.cumsum(lengths + TAIL)))


def publishing(spread: Spread) -> float:
    """Seconds in which a GPU lays its K and V out where others fetch them."""
    return _moving(spread, 2 * 2 * spread.problem.kv_heads)


def merging(spread: Spread, backward: bool = False) -> float:
    """Seconds in which a ring's partial results, one per round, become one: O, or dQ, dK and dV."""
    results = spread.problem.heads + 2 * backward * spread.problem.kv_heads
    return _moving(spread, (spread.gpus + 1) * results)


def steps(spread: Spread, backward: bool = False) -> list[Step]:
    """What all GPUs do, to the last, where keys are gathered or tokens exchanged for heads."""
    return list((_exchanged if spread.method == ALL_TO_ALL else _gathered)(spread, backward))


def _gathered(spread: Spread, backward: bool) -> Iterator[Step]:
    """A group of heads comes while the one before is computed."""
    groups, calls = spread.groups, _calls(spread)
    transfer = spread.way.seconds((spread.gpus - 1) * spread.passed(backward))
    whole = _computing(spread, backward)
    each, tail, start = transfer / groups, TAIL * len(calls), publishing(spread)
    yield Step(PACKING, 0, 0.0, start)
    for group in range(groups):
        yield Step(TRANSFER, group, start, start + each)
        arrived = start + (each if group == 0 else spread.way.round(whole, transfer) / groups + tail)
        yield Step(COMPUTING, group, arrived, arrived + whole / groups)
        start = arrived


def _exchanged(spread: Spread, backward: bool) -> Iterator[Step]:
    """Tokens are laid out by head, sent and put in order, their heads computed, and results sent back.

    Forward Q, K and V go and O comes back; backward, of what was kept, O's gradient goes and three come back.
    PyTorch copies between the two orders; the tokens of a head in zigzag order it gathers in one pass.
    """
    queries, moving = spread.problem.heads, partial(_moving, spread)
    every = queries + 2 * spread.problem.kv_heads
    there, back = (queries, every) if backward else (every, queries)
    peers = (spread.gpus - 1) / spread.gpus * spread.rows * spread.row
    at = 0.0
    for kind, seconds in (
        (PACKING, moving(2 * there, PACKING_SHARE)),
        (TRANSFER, spread.way.seconds(there * peers)),
        (PACKING, moving(2 * there * spread.zigzag, PACKING_SHARE)),
        (COMPUTING, _computing(spread, backward)),
        (PACKING, moving(2 * back * spread.zigzag)),
        (TRANSFER, spread.way.seconds(back * peers)),
        (PACKING, moving(2 * back, PACKING_SHARE)),
    ):
        if seconds:  # nothing is put in order where it comes so
            yield Step(kind, 0, at, at + seconds)
        at += seconds + TAIL * (kind == COMPUTING)


def _computing(spread: Spread, backward: bool) -> float:
    """Seconds of the kernel on the GPU that computes most, all groups of heads, call by call."""
    calls = _calls(spread)
    alone = spread.groups * sum(kernel_seconds(*call) for call in calls)
    return lasting(*calls[-1], alone * (BACKWARD if backward else 1))


def _calls(spread: Spread) -> list[tuple[Problem, str, int, int, bool]]:
    """The calls of a group of heads, as `kernel_seconds` takes them, on the GPU that computes most."""
    problem, tokens, exchanged = spread.problem, spread.problem.seq_q, spread.method == ALL_TO_ALL
    ways = spread.gpus if exchanged else spread.groups
    part = replace(problem, heads=problem.heads // ways, kv_heads=problem.kv_heads // ways)
    causal, half = not problem.mask.looks_ahead, -(-spread.rows // 2)
    shapes = [(tokens if exchanged else spread.rows, tokens)]
    if causal and spread.zigzag and not exchanged:  # the first GPU's: an early chunk and a late one
        shapes = [(half, half), (half, tokens)]
    return [(part, spread.hardware, *shape, causal) for shape in shapes]


def _moving(spread: Spread, heads: int, share: float = MERGING_SHARE) -> float:
    """Seconds in which a GPU's rows of so many heads are read or written, at a share of the memory's peak."""
    return heads * spread.rows * spread.row / (share * GPUS[spread.hardware].memory_bytes_per_second)
