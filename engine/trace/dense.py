"""Attention in dense float64, tile by tile: what the scheduler and the kernels are held against."""

from dataclasses import dataclass

import numpy as np

from engine.experiment import Experiment
from engine.problem.bounds import blocks, key_bounds, visible
from engine.problem.terms import before_keys, with_terms


@dataclass(frozen=True)
class Held:
    """What one of the three computed: out [seq_q, d], lse [seq_q], and m, l, alpha after every tile.

    The last three are [query blocks, key blocks, block_q], NaN where a tile is not visited; unfused attention
    has one key block, the whole row, and no alpha.
    """

    out: np.ndarray
    lse: np.ndarray
    m: np.ndarray
    l: np.ndarray  # noqa: E741 - the field's name
    alpha: np.ndarray


def exact_tiles(experiment: Experiment, q, k, v) -> Held:
    """Dense float64: each tile's m and l from all keys up to its end, without the online recurrence."""
    problem, tiling = experiment.problem, experiment.tiling
    width = problem.seq_kv if experiment.record.unfused else tiling.block_kv
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = np.full((problem.seq_q, blocks(problem.seq_kv, width) * width), -np.inf)
    seen = visible(problem)
    plain = with_terms(problem, q @ k.T * problem.head_dim**-0.5, *map(np.arange, seen.shape))
    scores[:, : problem.seq_kv] = np.where(seen, plain, -np.inf)
    first, more = before_keys(problem)
    sink = first if more else -np.inf
    by_block = scores.reshape(problem.seq_q, -1, width)
    m = np.maximum(np.maximum.accumulate(by_block.max(2), axis=1), sink)
    lse_so_far = np.logaddexp.accumulate(np.logaddexp.reduce(by_block, axis=2), axis=1)
    lse_so_far = np.logaddexp(lse_so_far, sink)
    with np.errstate(invalid="ignore"):
        l = np.where(np.isneginf(m), 0.0, np.exp(lse_so_far - m))  # noqa: E741
        before = np.concatenate([np.full((problem.seq_q, 1), sink), m[:, :-1]], 1)
        alpha = np.where(np.isneginf(before), 0.0, np.exp(before - m))
    lse = lse_so_far[:, -1]
    with np.errstate(invalid="ignore"):
        weights = np.where(seen, np.exp(scores[:, : problem.seq_kv] - lse[:, None]), 0.0)
    return Held(weights @ v, lse, *(by_tile(experiment, rows) for rows in (m, l, alpha)))


def by_tile(experiment: Experiment, rows: np.ndarray) -> np.ndarray:
    """[query blocks, key blocks, block_q] from [seq_q, key blocks]; NaN past the end, where not visited."""
    height = experiment.tiling.block_q
    count = blocks(len(rows), height)
    padded = np.full((count * height, rows.shape[1]), np.nan)
    padded[: len(rows)] = rows
    tiles = padded.reshape(count, height, -1).transpose(0, 2, 1)
    if experiment.record.unfused:
        return tiles
    visited = key_bounds(experiment.problem, experiment.tiling).visited(tiles.shape[1])
    return np.where(visited[:, :, None], tiles, np.nan)
