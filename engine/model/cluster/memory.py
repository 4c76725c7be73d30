"""Device memory of attention spread over GPUs, as `kernels.distributed` holds it, and the longest context."""

from __future__ import annotations

from engine.model.cluster.spread import ALL_GATHER, ALL_TO_ALL, Spread
from engine.problem.hardware import GPUS
from engine.schedule.step import STATISTIC_BYTES

TURNS = 2  # places to publish K and V in, used in turn
SLOTS = 3  # blocks of others' keys that are here or on their way
OWN = ("Q and O", "K and V", "lse")  # of a GPU's own tokens, whatever the method
PARTIALS = 8  # outputs of rounds that wait to be merged, at most


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
    if spread.method == ALL_GATHER:
        waiting = min(SLOTS, spread.groups)
        found["published K and V"] = TURNS * keys * own
        found["others' K and V"] = waiting * keys / spread.groups
        found["O of the groups"] = queries * own
    elif spread.method == ALL_TO_ALL:
        swapped = (2 * queries + keys + lse) * own
        found["published Q, K and V"] = TURNS * (queries + keys) * own
        found["Q, K, V and O of its heads"] = swapped
        found["O from the others"] = (queries + lse) * own
    else:
        found["published K and V"] = TURNS * keys * own
        found["others' K and V"] = min(SLOTS, gpus - 1) * keys * own
        found["O of the rounds"] = min(PARTIALS, gpus) * (queries + lse) * own
    return found


def memory_bytes(spread: Spread) -> float:
    """Bytes on the GPU that holds most."""
    return spread.problem.seq_q * sum(bytes_per_token(spread).values())


def longest_context(spread: Spread) -> int:
    """Tokens of the longest sequence whose attention, one layer of it, fits the GPUs' memory."""
    return int(GPUS[spread.hardware].memory_bytes / sum(bytes_per_token(spread).values()))
