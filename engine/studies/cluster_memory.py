"""Device memory of attention spread over GPUs, as `kernels.distributed` holds it, and the longest context."""

from dataclasses import dataclass

from engine.model.cluster.spread import ALL_GATHER, ALL_TO_ALL, RING, Spread
from engine.problem.hardware import GPUS
from engine.schedule.step import STATISTIC_BYTES

TURNS = 2  # places to publish K and V in, used in turn
SLOTS = 3  # blocks of others' keys that are here or on their way
OWN = ("Q and O", "K and V", "lse")  # of a GPU's own tokens, whatever the method
OTHERS = "others' K and V"
WAITING = 8  # outputs of rounds that wait to be merged, at most


def blocks_passing(gpus: int) -> int:
    """Blocks of others' keys that a ring has room for on each GPU."""
    return min(SLOTS, gpus - 1)


def bytes_per_token(spread: Spread) -> dict[str, float]:
    """Bytes that each token of the whole sequence takes on the GPU that holds most, by what they are of.

    One layer's attention, forward, all heads: Q, K, V and O, and what the method needs besides.
    """
    problem, gpus = spread.problem, spread.gpus
    own = 1 / gpus
    keys = 2 * problem.kv_heads * spread.row
    queries = problem.heads * spread.row
    lse = problem.all_heads * STATISTIC_BYTES
    found = dict(zip(OWN, (2 * queries * own, keys * own, lse * own), strict=True))
    if gpus == 1:
        return found
    if spread.method == ALL_TO_ALL:
        swapped = (2 * queries + keys + lse) * own
        found["published Q, K and V"] = TURNS * (queries + keys) * own
        found["Q, K, V and O of its heads"] = swapped
        found["O from the others"] = (queries + lse) * own
    elif not spread.by_steps:
        found["published K and V"] = TURNS * keys * own
        found[OTHERS] = min(SLOTS, spread.groups) * keys / spread.groups
        found["O of the groups"] = queries * own
    else:
        found["published K and V"] = TURNS * keys * own
        found[OTHERS] = blocks_passing(gpus) * keys * own
        found["O of the rounds"] = min(WAITING, gpus) * (queries + lse) * own
    return found


def memory_bytes(spread: Spread) -> float:
    """Bytes on the GPU that holds most."""
    return spread.problem.seq_q * sum(bytes_per_token(spread).values())


def longest_context(spread: Spread) -> int:
    """Tokens of the longest sequence whose attention, one layer of it, fits the GPUs' memory."""
    return int(GPUS[spread.hardware].memory_bytes * spread.problem.seq_q / memory_bytes(spread))


@dataclass(frozen=True)
class Room:
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
