"""Four warps that share one tile: each with a part of its keys, or each with a part of its queries.

FlashAttention-1 cut K and V among the warps of a block, FlashAttention-2 cuts Q (Dao, arXiv 2307.08691,
section 3.3 and figure 3). Warps of the first have parts of every row, which meet in shared memory.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np

from engine.algorithms import flash1
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.inputs import make_inputs

WARPS = 4  # as in the paper's figure
MAXIMUM, SUM = "maximum", "sum"
STEPS = ("cut", "scores", MAXIMUM, "weights", "products", SUM)


class Exchange:
    """Shared memory between warps, which counts what passes through it, in bytes, and how often all wait."""

    def __init__(self):
        self.written = self.read = self.waits = 0
        self.steps: list[tuple[int, int, int]] = []

    def step(self) -> None:
        """One of STEPS is done: what has passed so far is written down."""
        self.steps.append((self.written, self.read, self.waits))

    def passed(self, values: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
        """[warp][to] is left for every other warp; once all have come here each takes what is left for it."""
        left = {(warp, to): values[warp][to] for warp, to in permutations(range(WARPS), 2)}
        self.written += sum(each.nbytes for each in left.values())
        self.waits += 1
        found = [[left[other, warp] for other in range(WARPS) if other != warp] for warp in range(WARPS)]
        self.read += sum(each.nbytes for own in found for each in own)
        return found


@dataclass(frozen=True)
class Shared:
    """A tile's visit, or several: bytes through shared memory and waits, after each step."""

    # written, read, waits: [steps] counted since the start of the visit, after each of STEPS
    written: tuple[int, ...]
    read: tuple[int, ...]
    waits: tuple[int, ...]
    # [rows, d] float32 O of the tile, not yet divided by l, relative to the tile's own maximum
    out: np.ndarray
    # [rows] the sum of its weights
    l: np.ndarray  # noqa: E741 - the field's name
    visits: int  # tiles of a head, each of which passes as many bytes


@lru_cache(maxsize=16)
def partitions(experiment: Experiment) -> dict[str, Shared]:
    """The first tile of a head, its keys cut among WARPS warps and its queries: "keys" and "queries"."""
    one = experiment.changed(algorithm=flash1.ALGORITHM.key, batch=1, heads=1, kv_heads=1)
    rows, keys = one.tiling.block_q, one.tiling.block_kv
    first = one.changed(seq=rows, seq_kv=keys, causal=False, window=None, documents=None)
    q, k, v = (each[0] for each in make_inputs(first.problem))
    q = q * np.float32(first.problem.scale)
    visits = simulate(one).per_head.tiles_visited
    return {"keys": _cut_keys(q, k, v, visits), "queries": _cut_queries(q, k, v, visits)}


def _cut_keys(q: np.ndarray, k: np.ndarray, v: np.ndarray, visits: int) -> Shared:
    """Every warp has all rows and a part of the keys: maxima, sums and O of all must meet."""
    exchange = Exchange()
    shares = np.array_split(np.arange(len(q)), WARPS)
    exchange.step()
    scores = [q @ part.T for part in np.array_split(k, WARPS)]
    exchange.step()
    own = [part.max(1) for part in scores]
    others = exchange.passed([[each] * WARPS for each in own])
    m = [np.maximum.reduce([each, *more]) for each, more in zip(own, others, strict=True)]
    exchange.step()
    weights = [np.exp(part - m[w][:, None]) for w, part in enumerate(scores)]
    exchange.step()
    outs = [weights[w] @ part for w, part in enumerate(np.array_split(v, WARPS))]
    exchange.step()
    sums = [
        [np.c_[out, part.sum(1)][rows] for rows in shares] for out, part in zip(outs, weights, strict=True)
    ]
    whole = [sums[warp][warp] + sum(others) for warp, others in enumerate(exchange.passed(sums))]
    exchange.step()
    return _shared(exchange, whole, visits)


def _cut_queries(q: np.ndarray, k: np.ndarray, v: np.ndarray, visits: int) -> Shared:
    """Every warp has whole rows: nothing that it computes concerns another."""
    exchange, whole = Exchange(), []
    for part in np.array_split(q, WARPS):
        scores = part @ k.T
        weights = np.exp(scores - scores.max(1, keepdims=True))
        whole.append(np.c_[weights @ v, weights.sum(1)])
    for _ in STEPS:
        exchange.step()
    return _shared(exchange, whole, visits)


def _shared(exchange: Exchange, parts: list[np.ndarray], visits: int) -> Shared:
    whole = np.concatenate(parts)
    return Shared(*zip(*exchange.steps, strict=True), whole[:, :-1], whole[:, -1], visits)
