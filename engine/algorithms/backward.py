"""The backward pass as its three kernels run it: row terms, dK and dV by key blocks, dQ by query blocks.

Tri Dao, arXiv 2307.08691, section 3.1.2, in two passes: each gradient is summed on the chip, in one order.
Rows with which the kernels pad delta and lse to whole blocks are not counted.
"""

from __future__ import annotations

import numpy as np

from engine.problem.bounds import blocks, key_bounds, query_bounds
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Step, Tensor, load, store

ROW_TERMS, KEY_GRADIENTS, QUERY_GRADIENTS = "row terms", "dK and dV", "dQ"
QUERY_SIDE = (load(Tensor.Q), load(Tensor.D_O), load(Tensor.LSE_LOG2), load(Tensor.DELTA))
KEY_SIDE = (load(Tensor.K), load(Tensor.V))
KEY_VISIT = (
    *QUERY_SIDE,
    Step(Operation.SCORES),
    Step(Operation.WEIGHT_GRADIENT),  # before P, whose exponentials can hide under it
    Step(Operation.WEIGHTS),
    Step(Operation.VALUE_GRADIENT),
    Step(Operation.SCORE_GRADIENT),
    Step(Operation.KEY_GRADIENT),
)
QUERY_VISIT = (
    *KEY_SIDE,
    Step(Operation.SCORES),
    Step(Operation.WEIGHT_GRADIENT),
    Step(Operation.WEIGHTS),
    Step(Operation.SCORE_GRADIENT),
    Step(Operation.QUERY_GRADIENT),
)


def build(problem: Problem, tiling: Tiling) -> Schedule:
    """One head; the second kernel's program goes on with the other heads that share its key head."""
    bounds = key_bounds(problem, tiling)
    first, stop = query_bounds(bounds, blocks(problem.seq_kv, tiling.block_kv))
    none = np.zeros(len(bounds.first), np.int64)
    phases = (
        Phase(
            name=ROW_TERMS,
            outer="query",
            first=none,
            stop=none,
            before=(load(Tensor.O), load(Tensor.D_O), load(Tensor.LSE), Step(Operation.ROW_TERMS)),
            after=(store(Tensor.DELTA), store(Tensor.LSE_LOG2)),
        ),
        Phase(
            name=KEY_GRADIENTS,
            outer="key",
            first=first,
            stop=stop,
            before=KEY_SIDE,
            each=KEY_VISIT,
            after=(store(Tensor.D_K), store(Tensor.D_V)),
            shared=True,
        ),
        Phase(
            name=QUERY_GRADIENTS,
            outer="query",
            first=bounds.first,
            stop=bounds.stop,
            before=QUERY_SIDE,
            each=QUERY_VISIT,
            after=(store(Tensor.D_Q),),
        ),
    )
    return Schedule(problem, tiling, phases, bounds)
