"""The backward pass as its three kernels run it: row terms, dK and dV by key blocks, dQ by query blocks.

Tri Dao, arXiv 2307.08691, section 3.1.2, in two passes: each gradient is summed on the chip, in one order.
Rows with which the kernels pad delta and lse to whole blocks are not counted.
"""

import numpy as np

from engine.algorithms.record import BACKWARD, Algorithm, Part, loaded, summed
from engine.problem.bounds import blocks, key_bounds, query_bounds
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import Phase
from engine.schedule.programs import Programs
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Step, Tensor, load, store
from kernels.tilings.backward import Launched, tilings
from kernels.tilings.device import HOPPER, Device

WIDEST = 512  # head dim that the kernels take
ROW_TERMS, KEY_GRADIENTS, QUERY_GRADIENTS = "row terms", "dK and dV", "dQ"
QUERY_SIDE = (load(Tensor.Q), load(Tensor.D_O), load(Tensor.LSE_LOG2), load(Tensor.DELTA))
KEY_SIDE = (load(Tensor.K), load(Tensor.V))
# dP comes before P, whose exponentials can hide under it
WEIGHTS = Operation.SCORES, Operation.WEIGHT_GRADIENT, Operation.WEIGHTS
KEY_STEPS = *WEIGHTS, Operation.VALUE_GRADIENT, Operation.SCORE_GRADIENT, Operation.KEY_GRADIENT
QUERY_STEPS = *WEIGHTS, Operation.SCORE_GRADIENT, Operation.QUERY_GRADIENT


def schedule(problem: Problem, tiling: Tiling) -> Schedule:
    """One head; the second kernel's program goes on with the other heads that share its key head."""
    bounds = key_bounds(problem, tiling)
    first, stop = query_bounds(bounds, blocks(problem.seq_kv, tiling.block_kv))
    none = np.zeros(len(bounds.first), np.int64)
    terms = load(Tensor.O), load(Tensor.D_O), load(Tensor.LSE), Step(Operation.ROW_TERMS)
    kept = tuple(map(store, (Tensor.DELTA, Tensor.LSE_LOG2)))
    over_queries, over_keys = (*QUERY_SIDE, *map(Step, KEY_STEPS)), (*KEY_SIDE, *map(Step, QUERY_STEPS))
    own = {name: _launched(name, problem, tiling) for name in (KEY_GRADIENTS, QUERY_GRADIENTS)}
    keys = Programs(first, stop), KEY_SIDE, over_queries, (store(Tensor.D_K), store(Tensor.D_V))
    queries = Programs(bounds.first, bounds.stop), QUERY_SIDE, over_keys, (store(Tensor.D_Q),)
    phases = (  # delta once a row; dK and dV gathered over query blocks; dQ gathered over key blocks
        Phase(ROW_TERMS, "query", Programs(none, none), terms, after=kept, round_trips=1),
        Phase(KEY_GRADIENTS, "key", *keys, shared=True, **own[KEY_GRADIENTS]),
        Phase(QUERY_GRADIENTS, "query", *queries, **own[QUERY_GRADIENTS]),
    )
    return Schedule(problem, tiling, phases, bounds)


def own_tilings(
    problem: Problem, device: Device = HOPPER, blocks: tuple[int, ...] = (None, None)
) -> dict[str, Launched]:
    """Query and key rows, warps and most stages of the kernel of dK and dV and of that of dQ, by their names:
    in these blocks, or in those that they take of themselves on a GPU."""
    dims = min(problem.head_dim, WIDEST), min(problem.v_dim, WIDEST)
    return dict(
        zip((KEY_GRADIENTS, QUERY_GRADIENTS), tilings(dims, problem.itemsize, *blocks, device), strict=True)
    )


def _launched(name: str, problem: Problem, tiling: Tiling) -> dict[str, int]:
    """Warps and stages of a kernel, its own in its own blocks."""
    blocks = tiling.block_q, tiling.block_kv
    *own, warps, stages = own_tilings(problem, tiling.device)[name]
    if tuple(own) != blocks:
        *_, warps, stages = own_tilings(problem, tiling.device, blocks)[name]
    return {"warps": warps, "stages": stages}


def parts(problem: Problem, tiling: Tiling) -> dict[str, tuple[Part, ...]]:
    """The tiles of the three kernels: P takes the place of S, and dS that of dP."""
    named = {Tensor.D_O: "dO", Tensor.LSE: "lse", Tensor.LSE_LOG2: "lse", Tensor.DELTA: "δ"}

    def comes(*tensors: Tensor) -> tuple[Part, ...]:
        return tuple(loaded(problem, tiling, tensor, named.get(tensor, "")) for tensor in tensors)

    inputs = comes(Tensor.Q, Tensor.K, Tensor.V, Tensor.D_O, Tensor.LSE_LOG2, Tensor.DELTA)
    scores, keys = tiling.block_q * tiling.block_kv, tiling.block_kv
    tiles = (summed("S", Tensor.S, scores), summed("dP", Tensor.D_P, scores))
    gradients = (
        summed("dK", Tensor.D_K, keys * problem.head_dim),
        summed("dV", Tensor.D_V, keys * problem.v_dim),
    )
    d_q = summed("dQ", Tensor.D_Q, tiling.block_q * problem.head_dim)
    return {
        ROW_TERMS: comes(Tensor.O, Tensor.D_O, Tensor.LSE, Tensor.DELTA),
        KEY_GRADIENTS: (*inputs, *tiles, *gradients),
        QUERY_GRADIENTS: (*inputs, *tiles, d_q),
    }


ALGORITHM = Algorithm(
    *("backward", "Backward pass", "Backward", 5, schedule, parts),
    parts_words="(Modelled for the backward pass: one copy of what is loaded. Its sums are in registers.)",
    tensors=(
        *(Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.LSE, Tensor.D_O, Tensor.D_Q, Tensor.D_K, Tensor.D_V),
        *(Tensor.DELTA, Tensor.LSE_LOG2),
    ),
    heavy_first=True,
    direction=BACKWARD,
    offered=False,
    interpreter_ms=(10.0, 8.0),
)
