"""FlashAttention-2: query blocks outside, key blocks inside, O written once.

Tri Dao, arXiv 2307.08691, Algorithm 1.
"""

from __future__ import annotations

from engine.problem.bounds import key_bounds
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Step, Tensor, load, store

VISIT = (
    load(Tensor.K),
    load(Tensor.V),
    Step(Operation.SCORES),
    Step(Operation.MAXIMUM),
    Step(Operation.RESCALE),
    Step(Operation.ACCUMULATE),
)


def build(problem: Problem, tiling: Tiling) -> Schedule:
    """One head: each query block stays on the chip while the key blocks that it sees pass by."""
    bounds = key_bounds(problem, tiling)
    phase = Phase(
        name="attention",
        outer="query",
        first=bounds.first,
        stop=bounds.stop,
        before=(load(Tensor.Q),),
        each=VISIT,
        after=(store(Tensor.O), store(Tensor.LSE)),
    )
    return Schedule(problem, tiling, (phase,), bounds)
