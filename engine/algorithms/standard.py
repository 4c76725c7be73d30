"""Unfused attention as three kernels: S and P live in memory, and the mask skips nothing."""

from __future__ import annotations

import numpy as np

from engine.problem.bounds import blocks, key_bounds
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Step, Tensor, load, store


def build(problem: Problem, tiling: Tiling) -> Schedule:
    """One head: S = Q K^T tile by tile, P = softmax(S) over whole rows, O = P V by query blocks."""
    query_blocks, key_blocks = blocks(problem.seq_q, tiling.block_q), blocks(problem.seq_kv, tiling.block_kv)
    none = np.zeros(query_blocks, np.int64)
    whole = {"outer": "query", "first": none, "stop": np.full(query_blocks, key_blocks, np.int64)}
    phases = (
        Phase(
            name="scores",
            each=(load(Tensor.Q), load(Tensor.K), Step(Operation.SCORES), store(Tensor.S)),
            **whole,
        ),
        Phase(
            name="softmax",
            outer="query",
            first=none,
            stop=none,
            before=(load(Tensor.S), Step(Operation.SOFTMAX), store(Tensor.P)),
        ),
        Phase(
            name="output",
            each=(load(Tensor.P), load(Tensor.V), Step(Operation.ACCUMULATE)),
            after=(store(Tensor.O),),
            **whole,
        ),
    )
    return Schedule(problem, tiling, phases, key_bounds(problem, tiling))
