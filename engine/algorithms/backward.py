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


def schedule(problem: Problem, tiling: Tiling) -> Schedule:
    """One head; the second kernel's program goes on with the other heads that share its key head."""
    bounds = key_bounds(problem, tiling)
    first, stop = query_bounds(bounds, blocks(problem.seq_kv, tiling.block_kv))
    none = np.zeros(len(bounds.first), np.int64)
    phases = (
        # delta = rowsum(dO o O), once a row
        Phase(
            name=ROW_TERMS,
            outer="query",
            programs=Programs(none, none),
            before=(load(Tensor.O), load(Tensor.D_O), load(Tensor.LSE), Step(Operation.ROW_TERMS)),
            after=(store(Tensor.DELTA), store(Tensor.LSE_LOG2)),
            round_trips=1,
        ),
        # for each key block: dK and dV, gathered over the query blocks that see it
        Phase(
            name=KEY_GRADIENTS,
            outer="key",
            programs=Programs(first, stop),
            before=KEY_SIDE,
            each=KEY_VISIT,
            after=(store(Tensor.D_K), store(Tensor.D_V)),
            shared=True,
            **_launched(KEY_GRADIENTS, problem, tiling),
        ),
        # for each query block: dQ, gathered over the key blocks that it sees
        Phase(
            name=QUERY_GRADIENTS,
            outer="query",
            programs=Programs(bounds.first, bounds.stop),
            before=QUERY_SIDE,
            each=QUERY_VISIT,
            after=(store(Tensor.D_Q),),
            **_launched(QUERY_GRADIENTS, problem, tiling),
        ),
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
    key="backward",
    label="Backward pass",
    short="Backward",
    order=5,
    schedule=schedule,
    parts=parts,
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
