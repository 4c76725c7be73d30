"""Unfused attention as three kernels: S and P live in memory, and the mask skips nothing.

Its kernel also writes lse, 4 bytes per row, for those who ask. Unfused attention needs none, so writing it is
not counted; the room that it takes in memory is.
"""

import numpy as np

from engine.algorithms.record import Algorithm, Part, loaded, summed
from engine.problem.bounds import blocks, key_bounds
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import ROWS, TILE, Phase
from engine.schedule.programs import Programs
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Step, Tensor, load, store
from kernels.tilings.standard import SOFTMAX_TILE


def schedule(problem: Problem, tiling: Tiling) -> Schedule:
    """One head: S = Q K^T tile by tile, P = softmax(S) over whole rows, O = P V by query blocks."""
    query_blocks, key_blocks = blocks(problem.seq_q, tiling.block_q), blocks(problem.seq_kv, tiling.block_kv)
    none = np.zeros(query_blocks, np.int64)
    whole = Programs(none, np.full(query_blocks, key_blocks, np.int64))
    scores = load(Tensor.Q), load(Tensor.K), Step(Operation.SCORES), store(Tensor.S)
    weights = load(Tensor.S), Step(Operation.SOFTMAX), store(Tensor.P)
    products = load(Tensor.P), load(Tensor.V), Step(Operation.ACCUMULATE)
    rows = softmax_rows(problem.seq_kv)
    phases = (
        Phase("scores", "query", whole, each=scores, launched=TILE),  # a tile a program
        Phase("softmax", "query", Programs(none, none), weights, launched=ROWS, rows=rows),
        Phase("output", "query", whole, each=products, after=(store(Tensor.O),)),  # a block of rows a program
    )
    return Schedule(problem, tiling, phases, key_bounds(problem, tiling))


def softmax_rows(seq_kv: int) -> int:
    """Rows of S that a block of the softmax takes."""
    return max(1, SOFTMAX_TILE >> (seq_kv - 1).bit_length())


def parts(problem: Problem, tiling: Tiling) -> dict[str, tuple[Part, ...]]:
    """Tiles of the two products; of the softmax one row."""
    q, k, v, p = (loaded(problem, tiling, tensor) for tensor in (Tensor.Q, Tensor.K, Tensor.V, Tensor.P))
    s = summed("S", Tensor.S, tiling.block_q * tiling.block_kv)
    o = summed("O", Tensor.O, tiling.block_q * problem.v_dim)
    return {
        "scores": (q, k, s),
        "softmax": (summed("a row of S", Tensor.S, problem.seq_kv),),
        "output": (p, v, o),
    }


ALGORITHM = Algorithm(
    *("standard", "Standard (unfused)", "Standard", 0, schedule, parts),
    tensors=(Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.S, Tensor.P, Tensor.LSE),
    fewest_stages=2,
    parts_words="(Modelled for the largest of its three kernels. Its sums are in registers.)",
    techniques=frozenset(),
    kernel="standard",
    probed=True,
    code=23_000,
    traced=True,
    interpreter_ms=(10.0, 1.6),
)
