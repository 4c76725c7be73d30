"""The recorded times of a kernel over its block sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.experiment import Experiment
from engine.problem.problem import Problem
from engine.recordings.nearest import difference, head_dim, nearest
from engine.recordings.recording import Recording


@dataclass(frozen=True)
class HeatMap:
    """The best of every block size: arrays [block_q, block_kv]; NaN (0 warps, 0 stages) where all failed.

    reasons[i][j] is the failure's sentence, None where something ran or nothing was tried.
    """

    block_q: tuple[int, ...]
    block_kv: tuple[int, ...]
    seconds: np.ndarray
    tflops: np.ndarray
    warps: np.ndarray
    stages: np.ndarray
    reasons: tuple[tuple[str | None, ...], ...]

    @property
    def fastest(self) -> tuple[int, int] | None:
        """Where the fastest blocks stand, (i, j); None if none ran."""
        if np.isnan(self.seconds).all():
            return None
        i, j = np.unravel_index(np.nanargmin(self.seconds), self.seconds.shape)
        return int(i), int(j)


def swept_problem(recording: Recording, experiment: Experiment) -> Problem | None:
    """The problem on which an algorithm's block sizes were tried, of the nearest head dimension."""
    own = [row for row in recording.sweep if row.algorithm == experiment.algorithm]
    row = nearest(own, experiment, difference(head_dim))
    return row and row.problem


def heat_map(recording: Recording, algorithm: str, head_dim: int, causal: bool = False) -> HeatMap:
    """The sweep over block sizes: of each the fastest warps and stages, or why none ran."""
    rows = [
        row
        for row in recording.sweep
        if (row.algorithm, row.problem.head_dim, row.problem.mask.causal) == (algorithm, head_dim, causal)
    ]
    queries = tuple(sorted({row.block_q for row in rows}))
    keys = tuple(sorted({row.block_kv for row in rows}))
    seconds, tflops = (np.full((len(queries), len(keys)), np.nan) for _ in range(2))
    warps, stages = (np.zeros((len(queries), len(keys)), int) for _ in range(2))
    reasons: list[list[str | None]] = [[None] * len(keys) for _ in queries]
    for row in rows:
        i, j = queries.index(row.block_q), keys.index(row.block_kv)
        if row.times is None:
            reasons[i][j] = reasons[i][j] or row.skipped
        elif not row.times.p50 >= seconds[i, j]:
            seconds[i, j], tflops[i, j] = row.times.p50, row.tflops
            warps[i, j], stages[i, j] = row.warps, row.stages
    shown = (
        (None if seconds[i, j] > 0 else reason for j, reason in enumerate(line))
        for i, line in enumerate(reasons)
    )
    return HeatMap(queries, keys, seconds, tflops, warps, stages, tuple(map(tuple, shown)))
