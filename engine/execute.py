"""A schedule run on numbers: every load and store through an instrumented memory, every tile within the SRAM there is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.bounds import blocks, key_bounds, visible_keys
from engine.experiment import Experiment
from engine.inputs import round_to


@dataclass(frozen=True)
class RowStatistics:
    """How the online softmax of some rows went, block by block, float32.

    Attributes:
        rows: [rows] query rows.
        m, l, alpha: [rows, key blocks] running maximum, running sum and rescale factor after each key block, NaN where
            the block is not visited. Unfused attention has one block, the whole row, and no alpha.
        weight: [rows, key blocks] share of the final softmax mass in each tile of the grid; 0 where not visited.
        lse: [rows] log-sum-exp, natural; -inf where a row sees no key.
    """

    rows: np.ndarray
    m: np.ndarray
    l: np.ndarray  # noqa: E741 - the field's name
    alpha: np.ndarray
    weight: np.ndarray
    lse: np.ndarray


def row_statistics(experiment: Experiment, q: np.ndarray, k: np.ndarray, rows) -> RowStatistics:
    """m, l, alpha and weights of some rows of one head, as `execute` computes them, all rows at once.

    q is [seq_q, d] and k [seq_kv, d]; costs O(rows * seq_kv * d).
    """
    rows = np.asarray(rows, np.int64)
    problem, width = experiment.problem, experiment.tiling.block_kv
    count = blocks(problem.seq_kv, width)
    scores = np.full((len(rows), count * width), -np.inf, np.float32)
    low, high = visible_keys(problem, rows)
    first, stop = (int(low.min()), int(high.max())) if len(rows) else (0, 0)
    if stop > first:
        keys = np.arange(first, stop)
        seen = (keys >= low[:, None]) & (keys < high[:, None])
        products = (q[rows] @ k[first:stop].T) * np.float32(problem.head_dim**-0.5)
        scores[:, first:stop] = np.where(seen, products, np.float32(-np.inf))
    whole = experiment.algorithm == "standard"
    if whole:
        scores = round_to(scores, problem.dtype)
    tiles = scores.reshape(len(rows), count, width)
    m, masses = _block_masses(tiles)
    final = m[:, -1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        drop = np.where(np.isneginf(m), 0, np.exp(m - np.where(np.isneginf(final), 0, final)))
        alpha = np.where(
            np.isneginf(m[:, :-1]), 0, np.exp(m[:, :-1] - np.where(np.isneginf(m[:, 1:]), 0, m[:, 1:]))
        )
    alpha = np.concatenate([np.zeros((len(rows), 1), np.float32), alpha], 1)
    l = _running_sum(alpha, masses)  # noqa: E741
    total = l[:, -1]
    weight = masses * drop / np.where(total > 0, total, 1)[:, None]
    with np.errstate(divide="ignore"):
        lse = final[:, 0] + np.log(total)
    if whole:
        nothing = np.full((len(rows), 1), np.nan, np.float32)
        return RowStatistics(rows, final, total[:, None], nothing, weight, lse)
    bounds = key_bounds(problem, experiment.tiling)
    of = rows // experiment.tiling.block_q
    visited = (np.arange(count) >= bounds.first[of][:, None]) & (np.arange(count) < bounds.stop[of][:, None])
    m, l, alpha = (np.where(visited, column, np.float32(np.nan)) for column in (m, l, alpha))
    return RowStatistics(rows, m, l, alpha, weight, lse)


def _block_masses(tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Running maximum after each block, and the sum of exp(score - that maximum) in each: [rows, blocks] both."""
    m = np.maximum.accumulate(tiles.max(2), axis=1)
    return m, np.exp(tiles - np.where(np.isneginf(m), np.float32(0), m)[:, :, None]).sum(2)


def _running_sum(alpha: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """l after each block: l = alpha l + the block's own mass."""
    running = np.zeros_like(masses)
    before = np.zeros(len(masses), np.float32)
    for block in range(masses.shape[1]):
        before = running[:, block] = alpha[:, block] * before + masses[:, block]
    return running
