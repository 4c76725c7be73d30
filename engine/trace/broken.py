"""Attention with a line of its kernel left out: what each output tile would hold, and how far off it is."""

import numpy as np

from engine.experiment import Experiment
from engine.model.launch import schedule_of
from engine.problem.dtype import round_to
from engine.trace.rows import masked_scores, visited_blocks
from engine.trace.softmax import falling

ALPHA, SUM, MAXIMUM, MASK, DIVISION = "alpha", "sum", "maximum", "mask", "division"
FLAWS = {  # what is left out, in words
    ALPHA: "without α",
    SUM: "without rescaling l",
    MAXIMUM: "without the maximum",
    MASK: "without the mask",
    DIVISION: "without ÷ l",
}
DIMS = 16  # of O that are looked at


def errors(
    experiment: Experiment, q: np.ndarray, k: np.ndarray, v: np.ndarray, rows
) -> dict[str, np.ndarray]:
    """By flaw, [rows, key blocks]: how far off O is after each block, as a share of its largest.

    Of a row that has seen no key, 0; of what is not finite, infinity. q is [seq_q, d], k and v [seq_kv, d].
    """
    rows, block = np.asarray(rows, np.int64), experiment.tiling.block_kv
    along = -1 if any(phase.reverse for phase in schedule_of(experiment).phases) else 1
    padded = np.zeros((-(-len(k) // block) * block, min(DIMS, v.shape[1])), np.float32)
    padded[: len(v)] = v[:, :DIMS]
    values = padded.reshape(-1, block, padded.shape[1])[::along]
    scores = masked_scores(experiment, q, k, rows)
    problem = experiment.problem

    def summed(weights: np.ndarray) -> np.ndarray:
        """[rows, blocks, dims + 1] each block's part of O, and of l."""
        parts = np.einsum("rjb,jbd->rjd", weights, values, optimize=True)
        return np.concatenate([parts, weights.sum(2, keepdims=True)], 2)

    def online(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same relative to the maximum at each block, and that maximum's weight at the end."""
        tiles = scores.reshape(len(rows), -1, block)[:, ::along]
        m = np.maximum.accumulate(tiles.max(2), axis=1)
        return summed(falling(tiles, m[:, :, None])), falling(m, m[:, -1:])[:, :, None]

    parts, last = online(scores)
    right = np.cumsum(parts * last, 1)
    seen, now = right[..., -1:] > 0, np.where(last > 0, last, 1)
    left, left_last = parts, last
    if problem.mask.hides:
        seeing = np.repeat(visited_blocks(experiment, rows, len(values)), block, axis=1)[:, : len(k)]
        plain = np.full_like(scores, -np.inf)
        plain[:, : len(k)] = np.where(seeing, q[rows] @ k.T * problem.scale, -np.inf)
        left, left_last = online(plain)
    with np.errstate(over="ignore", invalid="ignore"):
        low = round_to(np.exp(scores), problem.dtype).reshape(len(rows), -1, block)[:, ::along]
        found = {
            ALPHA: _divided(np.cumsum(parts, 1)),
            SUM: right[..., :-1] / now / np.maximum(np.cumsum(parts, 1)[..., -1:], 1e-30),
            MAXIMUM: _divided(np.cumsum(summed(low), 1)),
            MASK: _divided(np.cumsum(left * left_last, 1)),
            DIVISION: right[..., :-1] / now,
        }
        exact = _divided(right)
        largest = np.abs(exact).max((0, 1, 2)) or 1
        off = {name: np.abs(np.where(seen, out - exact, 0)).max(2) / largest for name, out in found.items()}
    return {name: np.nan_to_num(each, nan=np.inf, posinf=np.inf)[:, ::along] for name, each in off.items()}


def _divided(sums: np.ndarray) -> np.ndarray:
    """O over l, 0 where no key was seen."""
    return sums[..., :-1] / np.where(sums[..., -1:] == 0, 1, sums[..., -1:])
