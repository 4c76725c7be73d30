"""Ring attention: queries stay on their GPU, keys and values pass by, a block of another GPU's in each round.

Liu, Zaharia, Abbeel, arXiv 2310.01889; in zigzag order (Megatron-LM's context parallelism) all GPUs have the
same causal work. The tiling's splits are the GPUs; the schedule is that of all of them, a GPU's query blocks
in its own rounds: a program per query block and chunk of keys, which share out as split keys do, and a
second kernel that merges the m, l and O they leave.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from engine.algorithms import flash2, flash3, split_kv
from engine.algorithms.record import Algorithm, Part, attention_parts, fused_parts
from engine.problem.bounds import blocks, key_bounds
from engine.problem.hardware import Gpu
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import Phase
from engine.schedule.programs import Programs
from engine.schedule.schedule import Schedule
from engine.schedule.step import PARTIALS, Tensor, load, store

MOST_GPUS = 64  # that a schedule is unrolled for


@dataclass(frozen=True)
class Order:
    """Which GPU holds which chunks of the sequence, first to last.

    Zigzag: of 2 G chunks GPU r holds r and 2 G - 1 - r, so that all have the same causal work; plain: chunk r
    of G.
    """

    gpus: int
    zigzag: bool

    @property
    def chunks(self) -> int:
        return 2 * self.gpus if self.zigzag else self.gpus

    def of(self, gpu: int) -> tuple[int, ...]:
        return (gpu, self.chunks - 1 - gpu) if self.zigzag else (gpu,)

    def owner(self, chunk):
        """The GPU that holds a chunk (or each of an array of chunks)."""
        return np.minimum(chunk, self.chunks - 1 - chunk) if self.zigzag else chunk

    def edges(self, length: int) -> np.ndarray:
        """[chunks + 1] where each chunk of so many rows (or blocks) begins, and where the last ends."""
        return length * np.arange(self.chunks + 1) // self.chunks

    def holders(self, length: int) -> np.ndarray:
        """[length] the GPU that holds each of so many rows (or blocks of rows)."""
        return self.owner(np.searchsorted(self.edges(length), np.arange(length), side="right") - 1)


class Meeting(NamedTuple):
    """A GPU computes a chunk of its queries on one of the owner's keys; whole: none is hidden."""

    gpu: int
    owner: int
    queries: int
    keys: int
    whole: bool


def meetings(order: Order, problem: Problem) -> Iterator[Meeting]:
    """All that the GPUs compute, in no order: under a causal mask none that it hides whole."""
    full = problem.mask.looks_ahead
    for gpu, owner in product(range(order.gpus), repeat=2):
        for queries, keys in product(order.of(gpu), order.of(owner)):
            if full or keys <= queries:
                yield Meeting(gpu, owner, queries, keys, full or keys < queries)


def order_of(problem: Problem, tiling: Tiling) -> Order:
    """Zigzag where the mask makes later queries see more keys; splits are the GPUs."""
    return Order(min(tiling.splits, MOST_GPUS), not problem.mask.looks_ahead)


def schedule(problem: Problem, tiling: Tiling) -> Schedule:
    """One head on all GPUs: every query block on each chunk of keys that it sees, then what merges them."""
    order = order_of(problem, tiling)
    if order.gpus == 1:
        return flash2.schedule(problem, tiling)
    bounds = key_bounds(problem, tiling)
    share = ChunkShare(order, len(bounds.first), blocks(problem.seq_kv, tiling.block_kv))
    programs, left = Programs(bounds.first, bounds.stop, None, order.chunks, share), map(store, PARTIALS)
    rounds = Phase("rounds", "query", programs, (load(Tensor.Q),), flash2.VISIT, tuple(left))
    combine = replace(split_kv.combination(bounds, order.chunks), shared=False)
    return Schedule(problem, tiling, (rounds, combine), bounds)


@dataclass(frozen=True)
class ChunkShare:
    """A program per chunk of keys, in the order in which the query block's GPU meets them."""

    order: Order
    query_blocks: int
    key_blocks: int

    def of(self, first, stop, outer, program) -> tuple[np.ndarray, np.ndarray]:
        """What a program visits; equal where its chunk holds nothing for the query block."""
        order = self.order
        each = order.chunks // order.gpus  # chunks of a GPU
        owner = (order.holders(self.query_blocks)[outer] - program // each) % order.gpus
        chunk = np.where(program % each, order.chunks - 1 - owner, owner)
        edges = order.edges(self.key_blocks)
        begin = np.maximum(edges[chunk], first)
        return begin, np.maximum(begin, np.minimum(edges[chunk + 1], stop))

    def filled(self, first, stop) -> np.ndarray:
        """Chunks that the visited blocks reach into; a chunk may hold no block."""
        edges = np.unique(self.order.edges(self.key_blocks))
        return np.searchsorted(edges, stop) - np.searchsorted(edges, first, side="right") + 1


def parts(problem: Problem, tiling: Tiling) -> dict[str, tuple[Part, ...]]:
    """The tiles of a round, and those that merge one row's rounds."""
    if order_of(problem, tiling).gpus == 1:
        return attention_parts(problem, tiling)
    return {"rounds": fused_parts(problem, tiling), "combine": split_kv.parts(problem, tiling)["combine"]}


def step_kernel(problem: Problem, gpu: Gpu) -> str:
    """The key of the kernel that computes a round on a GPU."""
    served = flash3.ALGORITHM.unserved(problem, gpu) is None
    return (flash3 if served else flash2).ALGORITHM.key


ALGORITHM = Algorithm(
    *("ring", "Ring attention", "Ring", 6, schedule, parts),
    tensors=(Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.LSE, *PARTIALS),
    offered=False,
    several_gpus=True,
)
