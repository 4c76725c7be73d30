"""Four warps that share one tile: each with a part of its keys, or each with a part of its queries.

FlashAttention-1 cut K and V among the warps of a block, FlashAttention-2 cuts Q (Dao, arXiv 2307.08691,
section 3.3 and figure 3). Warps of the first have parts of every row, which meet in shared memory.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from engine.algorithms import flash1
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.inputs import make_inputs

WARPS = 4  # as in the paper's figure
MAXIMUM, SUM = "maximum", "sum"
STEPS = ("cut", "scores", MAXIMUM, "weights", "products", SUM)


@dataclass
class Exchange:
    """Shared memory between warps, which counts what passes through it, in bytes, and how often all wait."""

    written: int = 0
    read: int = 0
    waits: int = 0
    steps: list = field(default_factory=list)
    _held: dict = field(default_factory=dict)

    def step(self) -> None:
        """One of STEPS is done: what has passed so far is written down."""
        self.steps.append((self.written, self.read, self.waits))

    def put(self, name: str, warp: int, to: int, values: np.ndarray) -> None:
        """A warp leaves values for another."""
        self._held[name, warp, to] = values
        self.written += values.nbytes

    def wait(self) -> None:
        """All warps wait until each has come here."""
        self.waits += 1

    def take(self, name: str, warp: int, by: int) -> np.ndarray:
        """A warp takes what another has left for it."""
        values = self._held.pop((name, warp, by))
        self.read += values.nbytes
        return values


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
    """The first tile of a head, its keys cut among WARPS warps and its queries: "keys" and "queries".

    Example:
        >>> {cut: each.written[-1] for cut, each in partitions(Experiment.of(head_dim=64)).items()}
        {'keys': 52992, 'queries': 0}
    """
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
    warps, shares = range(WARPS), np.array_split(np.arange(len(q)), WARPS)
    exchange.step()
    scores = [q @ part.T for part in np.array_split(k, WARPS)]
    exchange.step()
    own = [part.max(1) for part in scores]
    _pass_on(exchange, "m", {(w, to): own[w] for w in warps for to in warps})
    m = [np.maximum.reduce([own[w], *_others(exchange, "m", w)]) for w in warps]
    exchange.step()
    weights = [np.exp(part - m[w][:, None]) for w, part in enumerate(scores)]
    exchange.step()
    outs = [weights[w] @ part for w, part in enumerate(np.array_split(v, WARPS))]
    exchange.step()
    sums = [part.sum(1) for part in weights]
    _pass_on(exchange, "O", {(w, to): np.c_[outs[w], sums[w]][shares[to]] for w in warps for to in warps})
    whole = [np.c_[outs[w], sums[w]][shares[w]] + sum(_others(exchange, "O", w)) for w in warps]
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


def _pass_on(exchange: Exchange, name: str, values: dict[tuple[int, int], np.ndarray]) -> None:
    """Every warp leaves what the others need, and all wait for all."""
    for (warp, to), part in values.items():
        if warp != to:
            exchange.put(name, warp, to, part)
    exchange.wait()


def _others(exchange: Exchange, name: str, warp: int) -> list[np.ndarray]:
    return [exchange.take(name, other, warp) for other in range(WARPS) if other != warp]


def _shared(exchange: Exchange, parts: list[np.ndarray], visits: int) -> Shared:
    whole = np.concatenate(parts)
    return Shared(*zip(*exchange.steps, strict=True), whole[:, :-1], whole[:, -1], visits)
