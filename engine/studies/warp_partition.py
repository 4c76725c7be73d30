"""Four warps that share one tile: each with a part of its keys, or each with a part of its queries.

FlashAttention-1 cut K and V among the warps of a block, FlashAttention-2 cuts Q (Dao, arXiv 2307.08691,
section 3.3 and figure 3). Warps of the first have parts of every row, which meet in shared memory.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.algorithms import flash1
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.inputs import make_inputs

WARPS = 4  # as in the paper's figure
STEPS = ("cut", "scores", "maximum", "weights", "products", "sum")


@dataclass(frozen=True)
class Shared:
    """A tile's visit, or several: bytes through shared memory and waits, after each step."""

    # [steps] counted since the start of the visit, after each of STEPS: bytes written and read, and waits
    passed: tuple[int, ...]
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


def _exchanged(values: list[list[np.ndarray]]) -> tuple[int, list[list[np.ndarray]]]:
    """[warp][to] is left for every other warp, which reads it once all have come: bytes, and what is read."""
    found = [[values[other][warp] for other in range(WARPS) if other != warp] for warp in range(WARPS)]
    return 2 * sum(each.nbytes for own in found for each in own), found


def _cut_keys(q: np.ndarray, k: np.ndarray, v: np.ndarray, visits: int) -> Shared:
    """Every warp has all rows and a part of the keys: maxima, sums and O of all must meet."""
    shares = np.array_split(np.arange(len(q)), WARPS)
    scores = [q @ part.T for part in np.array_split(k, WARPS)]
    own = [part.max(1) for part in scores]
    maxima, others = _exchanged([[each] * WARPS for each in own])
    m = [np.maximum.reduce([each, *more]) for each, more in zip(own, others, strict=True)]
    weights = [np.exp(part - m[w][:, None]) for w, part in enumerate(scores)]
    outs = [weights[w] @ part for w, part in enumerate(np.array_split(v, WARPS))]
    sums = [
        [np.c_[out, part.sum(1)][rows] for rows in shares] for out, part in zip(outs, weights, strict=True)
    ]
    parts, others = _exchanged(sums)
    whole = np.concatenate([sums[warp][warp] + sum(more) for warp, more in enumerate(others)])
    passed = 0, 0, maxima, maxima, maxima, maxima + parts
    return Shared(passed, (0, 0, 1, 1, 1, 2), whole[:, :-1], whole[:, -1], visits)


def _cut_queries(q: np.ndarray, k: np.ndarray, v: np.ndarray, visits: int) -> Shared:
    """Every warp has whole rows: nothing that it computes concerns another."""
    parts = []
    for part in np.array_split(q, WARPS):
        scores = part @ k.T
        weights = np.exp(scores - scores.max(1, keepdims=True))
        parts.append(np.c_[weights @ v, weights.sum(1)])
    whole, none = np.concatenate(parts), (0,) * len(STEPS)
    return Shared(none, none, whole[:, :-1], whole[:, -1], visits)
