"""What the page of several GPUs asks: runs, curves over GPUs, when transfers hide, and what fits memory."""

from dataclasses import replace
from typing import NamedTuple

from engine.algorithms import BACKWARD, FORWARD
from engine.algorithms.ring import step_kernel
from engine.experiment import Experiment
from engine.model.cluster.fabric import Fabric
from engine.model.cluster.lanes import Lanes, lanes
from engine.model.cluster.seconds import ClusterTime, computing, modelled, rounds
from engine.model.cluster.spread import ALL_GATHER, ALL_TO_ALL, METHODS, RING, TWO_LEVEL, Spread
from engine.problem.hardware import GPUS, LINKS
from engine.problem.problem import Mask
from engine.recordings.recording import Recording
from engine.schedule.step import STATISTIC_BYTES
from engine.studies.recorded_clusters import recorded_lanes

DRAWN = (2, 3, 4, 6, 8, 16, 24, 32, 48, 64)  # GPUs of a picture
TOKENS = tuple(2**power for power in range(13, 28))
PER_GPU = tuple(2**power for power in range(8, 19))  # tokens, of the chart of a round
ORDERS, WAYS, ALONE, RECORDED = "orders", "methods", "ring", "recorded"  # what stands beside the ring
COUNTS = (1, 2, 4, 8, 16, 64, 256, 1024, 4096, 10_000)  # GPUs of a curve, straight beyond a host's
CAUSAL, FULL = "causal", "none"
TURNS = 2  # places to publish K and V in, used in turn
SLOTS = 3  # blocks of others' keys that are here or on their way
OWN = ("Q and O", "K and V", "lse")  # of a GPU's own tokens, whatever the method
WAITING = 8  # outputs of rounds that wait to be merged, at most
# what the page asks: all that each may be, and what it usually is
CHOICES = {
    "gpus": (DRAWN, 4),
    "tokens": (TOKENS, 131_072),
    "link": (tuple(LINKS), "NVLink 4"),
    "mask": ((CAUSAL, FULL), CAUSAL),
    "pass": ((FORWARD, BACKWARD), FORWARD),
    "beside": ((ORDERS, WAYS, ALONE, RECORDED), ORDERS),
}


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


class Round(NamedTuple):
    """A ring's later round with so many tokens per GPU: seconds of its computing and of its transfer."""

    tokens: int
    computing: float
    transfer: float


def rounds_by_tokens(spread: Spread) -> list[Round]:
    whole = (replace(spread.problem, seq_q=own * spread.gpus, seq_kv=own * spread.gpus) for own in PER_GPU)
    each = (rounds(replace(spread, problem=problem).by(RING)) for problem in whole)
    return [Round(tokens, one.other, one.transfer) for tokens, one in zip(PER_GPU, each, strict=True)]


def over_gpus(spread: Spread) -> dict[int, ClusterTime]:
    """The same forward pass on more and more GPUs, as far as the method serves and each has two tokens."""
    counts = sorted({*COUNTS, spread.gpus})
    every = (spread.on(gpus) for gpus in counts if 2 * gpus <= spread.problem.seq_q)
    return {one.gpus: modelled(one) for one in every if one.unserved is None}


class Hiding(NamedTuple):
    """Whether a ring's transfers fit under its computing: tokens that a GPU has, and needs for that."""

    tokens: int
    needed: float
    flops: float
    bytes_per_second: float
    of_link: float  # bytes/s, the peak of what they come over

    @property
    def hides(self) -> bool:
        return self.tokens >= self.needed


def hiding(spread: Spread) -> Hiding:
    """Of a ring, at the rate that the kernel reaches on its blocks; latencies are left out."""
    problem, rows, fabric = spread.problem, spread.rows, spread.fabric
    causal = problem.mask.causal and spread.zigzag
    # FLOP/s of the kernel in later rounds, as the field counts them
    both = problem.head_dim + problem.v_dim
    rate = 2 * problem.all_heads * both * rows * rows / (1 + causal) / computing(spread)[1]
    needed = hidden_from(
        rate, spread.way.rate, problem.itemsize, problem.heads, problem.kv_heads, causal=causal
    )
    link = fabric.peak if fabric.hosts(spread.gpus) == 1 else fabric.network
    return Hiding(rows, needed, rate, spread.way.rate, link)


def hidden_from(
    flops: float, bytes_per_second: float, itemsize: int, heads: int, kv_heads: int, causal: bool
) -> float:
    """Tokens per GPU from which a ring hides its transfers: n* = F e H_kv / (2 B H), twice that where causal.

    A round computes 4 n² d H FLOPs (half where causal) at F, and brings 2 n d H_kv e bytes at B.
    """
    return flops * itemsize * kv_heads / (2 * bytes_per_second * heads) * (2 if causal else 1)


# ---------------------------------------------------------------- memory, as `kernels.distributed` holds it


def blocks_passing(gpus: int) -> int:
    """Blocks of others' keys that a ring has room for on each GPU."""
    return min(SLOTS, gpus - 1)


def bytes_per_token(spread: Spread) -> dict[str, float]:
    """Bytes that each token of the whole sequence takes on the GPU that holds most, by what they are of.

    One layer's attention, forward, all heads: Q, K, V and O, and what the method needs besides.
    """
    problem, gpus = spread.problem, spread.gpus
    keys, queries = (heads * spread.row / gpus for heads in (2 * problem.kv_heads, problem.heads))
    lse = problem.all_heads * STATISTIC_BYTES / gpus
    found = dict(zip(OWN, (2 * queries, keys, lse), strict=True))
    if gpus == 1:
        return found
    if spread.method == ALL_TO_ALL:
        return found | {
            "published Q, K and V": TURNS * (queries + keys),
            "Q, K, V and O of its heads": 2 * queries + keys + lse,
            "O from the others": queries + lse,
        }
    found["published K and V"] = TURNS * keys
    if spread.by_steps:
        passing, outs = blocks_passing(gpus) * keys, min(WAITING, gpus) * (queries + lse)
    else:
        passing, outs = min(SLOTS, spread.groups) * keys * gpus / spread.groups, queries
    return found | {"others' K and V": passing, "O of the groups or rounds": outs}


def memory_bytes(spread: Spread) -> float:
    """Bytes on the GPU that holds most."""
    return spread.problem.seq_q * sum(bytes_per_token(spread).values())


def longest_context(spread: Spread) -> int:
    """Tokens of the longest sequence whose attention, one layer of it, fits the GPUs' memory."""
    return int(GPUS[spread.hardware].memory_bytes * spread.problem.seq_q / memory_bytes(spread))


class Room(NamedTuple):
    """What a method keeps on each GPU, bytes, those beyond its own Q, K, V, O and lse, and what fits all."""

    spread: Spread
    bytes: float
    others: float
    longest: int


def rooms(spread: Spread) -> list[Room]:
    """One GPU, and every method that serves the problem on several."""
    every = [spread.on(1), *(spread.by(method) for method in (RING, ALL_GATHER, ALL_TO_ALL))]
    found = []
    for one in (each for each in every if each.unserved is None):
        others = sum(taken for name, taken in bytes_per_token(one).items() if name not in OWN)
        found.append(Room(one, memory_bytes(one), one.problem.seq_q * others, longest_context(one)))
    return found
