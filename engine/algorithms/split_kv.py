"""Few queries, many keys: programs take a share of the keys each, a second kernel combines what they found.

Also known as Flash-Decoding. The query heads that share a key head are rows of one block, so that K
and V of a key head are read once; "one head" of this schedule is therefore a key head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.algorithms.flash2 import VISIT
from engine.problem.bounds import KeyBounds, blocks, key_bounds
from engine.problem.problem import Problem, Tiling
from engine.schedule.nest import Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Step, Tensor, load, store


@dataclass(frozen=True)
class Packed(Problem):
    """A problem with the query heads of a key head packed: row r is query r // group of head r % group.

    It has as many heads as key heads, and group times the queries.
    """

    group: int = 1

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Key positions at which packed rows stand."""
        return rows // self.group + self.seq_kv - self.seq_q // self.group


def packed(problem: Problem) -> Packed:
    """The same problem with the rows of each key head packed."""
    group = problem.heads // problem.kv_heads
    return Packed(
        problem.batch,
        problem.kv_heads,
        problem.kv_heads,
        problem.seq_q * group,
        problem.seq_kv,
        problem.head_dim,
        problem.dtype,
        problem.mask,
        group,
    )


def build(problem: Problem, tiling: Tiling) -> Schedule:
    """One key head: every split's partial O and lse, then their combination; one split needs none."""
    rows = packed(problem)
    bounds = key_bounds(rows, tiling)
    first, stop = shares(bounds, tiling.splits)
    alone = tiling.splits == 1
    split = Phase(
        name="split",
        outer="query",
        first=first,
        stop=stop,
        before=(load(Tensor.Q),),
        each=VISIT,
        after=(store(Tensor.O), store(Tensor.LSE))
        if alone
        else (store(Tensor.PARTIAL), store(Tensor.PARTIAL_LSE)),
        shared=True,
        splits=tiling.splits,
    )
    return Schedule(rows, tiling, (split,) if alone else (split, _combine(bounds, tiling.splits)), bounds)


def shares(bounds: KeyBounds, splits: int) -> tuple[np.ndarray, np.ndarray]:
    """First and one past the last key block of every program; arrays are [query blocks * splits].

    They are equal where nothing is left for a program.
    """
    visits = (bounds.stop - bounds.first)[:, None]
    share = blocks(visits, splits)
    starts = np.arange(splits) * share
    some = starts < visits
    first = bounds.first[:, None] + np.where(some, starts, 0)
    return first.ravel(), (first + np.where(some, np.minimum(share, visits - starts), 0)).ravel()


def _combine(bounds: KeyBounds, splits: int) -> Phase:
    """The second kernel: every row's partial results come, one result goes."""
    none = np.zeros_like(bounds.first)
    return Phase(
        name="combine",
        outer="query",
        first=none,
        stop=none,
        before=(
            load(Tensor.PARTIAL_LSE, splits),
            load(Tensor.PARTIAL, splits),
            Step(Operation.COMBINE, times=splits),
            store(Tensor.O),
            store(Tensor.LSE),
        ),
        shared=True,
    )
