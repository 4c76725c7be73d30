"""FlashAttention-1: key blocks outside; O, m and l read and rewritten at every visit.

Tri Dao et al., arXiv 2205.14135, Algorithm 1, taken literally. The authors' code of version 1 differs: it
keeps O in float32 in memory until the last visit, in blocks of its own.
"""

from engine.algorithms.record import Algorithm, Pipeline, attention_parts
from engine.problem.bounds import blocks, key_bounds, query_bounds
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import HEAD, Phase
from engine.schedule.programs import Programs
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Step, Tensor, load, store

VISIT = (  # O, m and l come and go
    *map(load, (Tensor.Q, Tensor.O, Tensor.STATISTICS)),
    *map(Step, (Operation.SCORES, Operation.MAXIMUM, Operation.RESCALE, Operation.ACCUMULATE)),
    *map(store, (Tensor.O, Tensor.STATISTICS)),
)


def schedule(problem: Problem, tiling: Tiling) -> Schedule:
    """One head: each key block stays on the chip while the query blocks that see it pass by."""
    bounds = key_bounds(problem, tiling)
    first, stop = query_bounds(bounds, blocks(problem.seq_kv, tiling.block_kv))
    keys = load(Tensor.K), load(Tensor.V)
    phase = Phase("attention", "key", Programs(first, stop), keys, VISIT, launched=HEAD)
    return Schedule(problem, tiling, (phase,), bounds)


ALGORITHM = Algorithm(
    *("flash1", "FlashAttention-1", "Flash 1", 1, schedule, attention_parts),
    tensors=(Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.STATISTICS),
    pipeline=Pipeline(asynchronous=False, returning=True),
    techniques=frozenset({"fusion", "tiling", "online"}),
    kernel="flash1",
    caveat=(
        "FlashAttention-1 is its paper's Algorithm 1 taken literally here: one thread block per head, which "
        "rewrites O in 16 bits at every visit. The paper measured other code, so its speed was another."
    ),
    probed=True,
    code=18_000,
    traced=True,
    interpreter_ms=(8.0, 0.1),
)
