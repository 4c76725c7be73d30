"""FlashAttention-1: key blocks outside; O, m and l read and rewritten at every visit.

Tri Dao et al., arXiv 2205.14135, Algorithm 1.
"""

from __future__ import annotations

from engine.problem.bounds import blocks, key_bounds, query_bounds
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Step, Tensor, load, store

VISIT = (
    load(Tensor.Q),
    load(Tensor.O),
    load(Tensor.STATISTICS),
    Step(Operation.SCORES),
    Step(Operation.MAXIMUM),
    Step(Operation.RESCALE),
    Step(Operation.ACCUMULATE),
    store(Tensor.O),
    store(Tensor.STATISTICS),
)


def build(problem: Problem, tiling: Tiling) -> Schedule:
    """One head: each key block stays on the chip while the query blocks that see it pass by."""
    bounds = key_bounds(problem, tiling)
    first, stop = query_bounds(bounds, blocks(problem.seq_kv, tiling.block_kv))
    phase = Phase(
        name="attention",
        outer="key",
        first=first,
        stop=stop,
        before=(load(Tensor.K), load(Tensor.V)),
        each=VISIT,
    )
    return Schedule(problem, tiling, (phase,), bounds)
