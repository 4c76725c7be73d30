"""Calls drawn by lot, so that nobody chose what judges the model: sizes, masks, heads and blocks."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from engine.measuring.scenarios import call
from engine.recordings.recording import Counters

SEED = 20261122
HEADS = (1, 2, 4, 8, 16, 32, 64)
MOST_FLOPS, MOST_VALUES, MOST_SCORES = 1e13, 7.5e8, 3e9  # of a call; numbers of K; numbers of S, unfused
LONG, SHORT = (9000, 120_000), (100, 4000)  # tokens
Blocks = tuple[int | None, int | None]


def random_calls(seed: int = SEED) -> list[Counters]:
    """Calls of every algorithm, long ones beside L2's size and short ones; the same for the same seed."""
    lot = _Lot(random.Random(seed))
    dims, odd = (64, 128, 256), (64, 80, 96, 128, 256)
    wide, narrow = ((128, 64), (64, 64), (128, 32), (128, 128)), ((128, 64), (64, 64), (64, 32))
    small = ((64, 64), (32, 32), (64, 32), (32, 64))
    return [
        *(lot.call("flash3", lot.length(*LONG), dims) for _ in range(7)),
        *(lot.call("flash3", lot.length(*SHORT), dims, batches=(1, 4, 32)) for _ in range(4)),
        *(
            lot.call("flash2", lot.length(9000, 100_000), (64, 80, 128, 256), lot.one_of(wide))
            for _ in range(5)
        ),
        *(lot.call("flash2", lot.length(*SHORT), odd, lot.one_of(narrow), (1, 4, 32)) for _ in range(5)),
        *(
            lot.call("flash1", lot.length(200, 6000), (64, 64, 128), lot.one_of(small), (1, 4), 64, 0.3)
            for _ in range(4)
        ),
        *(
            lot.call("standard", lot.length(200, 9000), (64, 128, 96), (128, 64), (1, 2), 32, 0.3)
            for _ in range(4)
        ),
    ]


class _Lot:
    """Draws calls one after another."""

    def __init__(self, draw: random.Random):
        self.draw = draw
        self.one_of: Callable = draw.choice

    def length(self, low: int, high: int) -> int:
        """As likely between two as between their doubles."""
        return round(math.exp(self.draw.uniform(math.log(low), math.log(high))))

    def call(
        self,
        provider: str,
        seq: int,
        dims: tuple[int, ...],
        blocks: Blocks = (None, None),
        batches: tuple[int, ...] = (1,),
        most: int = 32,
        masked: float = 0.5,
    ) -> Counters:
        """One with as many heads as it draws of those that fit; half as long where none do."""
        causal = self.draw.random() < masked
        window = None
        if causal and provider in ("flash2", "flash3") and self.draw.random() < 0.2:
            window = self.length(64, seq)
        dim, group = self.draw.choice(dims), self.draw.choice((1, 1, 1, 4))
        sizes = [(heads, batch) for heads in HEADS for batch in batches if heads <= most]
        self.draw.shuffle(sizes)
        for heads, batch in sizes:
            shape = seq, dim, heads, max(1, heads // group), batch, causal, window
            one = call(provider, *shape, block_q=blocks[0], block_kv=blocks[1])
            if _is_small(one):
                return one
        return self.call(provider, seq // 2, dims, blocks, batches, most, masked)


def _is_small(one: Counters) -> bool:
    """Whether a GPU takes milliseconds for it, and has room."""
    problem = one.problem
    rows = problem.batch * problem.heads * problem.seq_kv
    scores = rows * problem.seq_q
    return (
        4 * scores * problem.head_dim < MOST_FLOPS
        and rows * problem.head_dim < MOST_VALUES
        and (one.provider != "standard" or scores < MOST_SCORES)
    )
