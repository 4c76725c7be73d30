"""What the page of several GPUs asks: runs, curves over GPUs, memory, a row's parts as they merge."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from engine.algorithms import BACKWARD, FORWARD
from engine.algorithms.ring import ALGORITHM, Order, step_kernel
from engine.experiment import Experiment
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.lanes import Lanes, lanes
from engine.model.cluster.seconds import ClusterTime, computing, modelled, rounds
from engine.model.cluster.spread import ALL_GATHER, ALL_TO_ALL, METHODS, RING, TWO_LEVEL, Spread
from engine.problem.hardware import GPUS, LINKS
from engine.problem.inputs import make_inputs
from engine.problem.problem import Mask
from engine.recordings.recording import Recording
from engine.studies.recorded_clusters import recorded_lanes
from engine.trace.dense import exact_tiles
from engine.trace.ring import execute_ring

DRAWN = (2, 3, 4, 6, 8, 16, 24, 32, 48, 64)  # GPUs of a picture
TOKENS = tuple(2**power for power in range(13, 28))
PER_GPU = tuple(2**power for power in range(8, 19))  # tokens, of the chart of a round
ORDERS, WAYS, ALONE, RECORDED = "orders", "methods", "ring", "recorded"  # what stands beside the ring
COUNTS = (1, 2, 4, 8, 16, 64, 256, 1024, 4096, 10_000)  # GPUs of a curve, straight beyond a host's
CAUSAL, FULL = "causal", "none"
# what the page asks: all that each may be, and what it usually is
CHOICES = {
    "gpus": (DRAWN, 4),
    "tokens": (TOKENS, 131_072),
    "link": (tuple(LINKS), "NVLink 4"),
    "mask": ((CAUSAL, FULL), CAUSAL),
    "pass": ((FORWARD, BACKWARD), FORWARD),
    "beside": ((ORDERS, WAYS, ALONE, RECORDED), ORDERS),
}
PARTS_GPUS, PARTS_TOKENS, PARTS_BLOCK = 4, 256, 16  # of the row whose merge is shown


def spread_of(
    experiment: Experiment, tokens: int, gpus: int, causal: bool, fabric: Fabric, method: str = METHODS[0]
) -> Spread:
    """A scenario's heads and dtype over so many tokens and GPUs; zigzag where causal."""
    problem = replace(experiment.problem, seq_q=tokens, seq_kv=tokens, mask=Mask(causal=causal))
    return Spread(problem, gpus, method, causal, fabric, experiment.hardware)


def alone(spread: Spread, backward: bool) -> Experiment:
    """The whole sequence on one GPU, by the kernel that suits it."""
    key = BACKWARD if backward else step_kernel(spread.problem, GPUS[spread.hardware])
    return Experiment(spread.problem, key, hardware=spread.hardware).in_own_tiling()


TAUGHT_GPUS = 4  # of the tour


def taught(experiment: Experiment, zigzag: bool) -> Spread:
    """A scenario's tokens over a few GPUs in a ring, with a causal mask."""
    spread = spread_of(experiment, experiment.problem.seq_q, TAUGHT_GPUS, True, Fabric())
    return spread.by(RING, zigzag)


def runs_of(
    spread: Spread, beside: str, backward: bool = False, recordings: tuple[Recording, ...] = ()
) -> tuple[Lanes, ...]:
    """The ring of a spread problem, and what is drawn beside it.

    That is the other order, the other methods, or what was recorded. More GPUs than a host has are a ring of
    hosts.
    """
    several = spread.gpus > spread.fabric.host
    ring = spread.by(TWO_LEVEL if several and spread.by(TWO_LEVEL).unserved is None else RING)
    if beside == ORDERS and spread.problem.mask.causal:
        return lanes(ring, backward), lanes(ring.by(ring.method, zigzag=False), backward)
    if beside == RECORDED:
        return lanes(ring, backward), *recorded_lanes(spread, recordings)
    ways = [RING] * (ring.method != RING) + [ALL_GATHER, ALL_TO_ALL] if beside == WAYS else []
    others = (spread.by(method) for method in ways)
    return lanes(ring, backward), *(lanes(each, backward) for each in others if each.unserved is None)


def beside_of(spread: Spread, backward: bool, recordings: tuple[Recording, ...]) -> list[str]:
    """What can be drawn beside the ring of a spread problem."""
    lanes_recorded = not backward and recorded_lanes(spread, recordings)
    return [ORDERS] * spread.problem.mask.causal + [WAYS, ALONE] + [RECORDED] * bool(lanes_recorded)


@dataclass(frozen=True)
class Round:
    """A ring's later round with so many tokens per GPU: seconds of its computing and of its transfer."""

    tokens: int
    computing: float
    transfer: float


def rounds_by_tokens(spread: Spread) -> list[Round]:
    """The same ring with more and more tokens per GPU."""
    found = []
    for tokens in PER_GPU:
        whole = replace(spread.problem, seq_q=tokens * spread.gpus, seq_kv=tokens * spread.gpus)
        one = rounds(replace(spread, problem=whole).by(RING))
        found.append(Round(tokens, one.other, one.transfer))
    return found


def over_gpus(spread: Spread) -> dict[int, ClusterTime]:
    """The same forward pass on more and more GPUs, as far as the method serves and each has two tokens."""
    counts = sorted({*COUNTS, spread.gpus})
    every = (spread.on(gpus) for gpus in counts if 2 * gpus <= spread.problem.seq_q)
    return {one.gpus: modelled(one) for one in every if one.unserved is None}


@dataclass(frozen=True)
class Hiding:
    """Whether a ring's transfers fit under its computing: tokens that a GPU has, and needs for that."""

    tokens: int
    needed: float
    flops: float
    bytes_per_second: float
    of_link: float  # bytes/s, the peak of what they come over

    @property
    def hides(self) -> bool:
        """Whether they do."""
        return self.tokens >= self.needed


def hiding(spread: Spread) -> Hiding:
    """Of a ring, at the rate that the kernel reaches on its blocks; latencies are left out."""
    problem, rows = spread.problem, spread.rows
    causal = problem.mask.causal and spread.zigzag
    # FLOP/s of the kernel in later rounds, as the field counts them
    rate = 4 * problem.all_heads * problem.head_dim * rows * rows / (1 + causal) / computing(spread)[1]
    heads = problem.heads, problem.kv_heads
    needed = hidden_from(rate, spread.way.rate, problem.itemsize, *heads, causal=causal)
    fabric = spread.fabric
    link = fabric.peak if fabric.hosts(spread.gpus) == 1 else fabric.network
    return Hiding(rows, needed, rate, spread.way.rate, link)


# ---------------------------------------------------------------- a row's parts, executed


@dataclass(frozen=True)
class RingParts:
    """A query's parts, in the order in which its GPU meets them, executed, and merged one after another.

    Attributes:
        gpu: that holds the query.
        owners: [parts] whose keys each part is of; keys [parts, 2] first and one past the last.
        m, l, out: [parts] and [parts, d] of each part alone; O is divided by its own l.
        merged_m, merged_l, merged: after each part: the largest m, the sum of exp(score - m), O.
        exact: [d] O in float64 over all keys at once.
        links: bytes of K and V that each GPU fetched, counted by running.
    """

    gpu: int
    owners: np.ndarray
    keys: np.ndarray
    m: np.ndarray
    l: np.ndarray  # noqa: E741 - the field's name
    out: np.ndarray
    merged_m: np.ndarray
    merged_l: np.ndarray
    merged: np.ndarray
    exact: np.ndarray
    links: tuple[int, ...]

    @property
    def error(self) -> float:
        """The largest difference of the last merge and float64."""
        return float(np.abs(self.merged[-1] - self.exact).max())


@lru_cache(maxsize=8)
def ring_parts(causal: bool, head_dim: int, dtype: str) -> RingParts:
    """The last query of a small ring of PARTS_GPUS: its GPU sees all keys, in either mask."""
    head = {"seq": PARTS_TOKENS, "heads": 1, "head_dim": head_dim, "dtype": dtype, "causal": causal}
    tiling = {"block_q": PARTS_BLOCK, "block_kv": PARTS_BLOCK, "splits": PARTS_GPUS}
    one = Experiment.of(algorithm=ALGORITHM.key, **head, **tiling)
    order = Order(PARTS_GPUS, causal)
    q, k, v = (array[0] for array in make_inputs(one.problem))
    found = execute_ring(one, order, q, k, v)
    gpu = int(order.holders(PARTS_TOKENS)[-1])
    owners = (gpu - np.arange(PARTS_GPUS)) % PARTS_GPUS
    chunks = np.array([chunk for owner in owners for chunk in order.of(int(owner))])
    edges = order.edges(PARTS_TOKENS)
    last = edges[chunks + 1] // PARTS_BLOCK - 1
    m, sums = (column[-1, last, -1].astype(np.float64) for column in (found.trace.m, found.trace.l))
    out = found.out[:, -1].astype(np.float64)
    merged_m = np.maximum.accumulate(m)
    weights = np.where(np.tri(len(m), dtype=bool), sums * np.exp(np.minimum(m - merged_m[:, None], 0)), 0.0)
    merged_l = weights.sum(1)
    merged, exact = weights @ out / merged_l[:, None], exact_tiles(one, q, k, v).out[-1]
    came = dict.fromkeys(range(PARTS_GPUS), 0)
    for (_, to), amount in found.links.items():
        came[to] += amount
    parts = order.owner(chunks), np.stack([edges[chunks], edges[chunks + 1]], 1), m, sums, out
    return RingParts(gpu, *parts, merged_m, merged_l, merged, exact, tuple(came.values()))


def hidden_from(
    flops: float, bytes_per_second: float, itemsize: int, heads: int, kv_heads: int, causal: bool
) -> float:
    """Tokens per GPU from which a ring hides its transfers: n* = F e H_kv / (2 B H), twice that where causal.

    A round computes 4 n² d H FLOPs (half where causal) at F, and brings 2 n d H_kv e bytes at B.
    """
    return flops * itemsize * kv_heads / (2 * bytes_per_second * heads) * (2 if causal else 1)
