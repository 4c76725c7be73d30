"""The online softmax of single rows, for a picture that follows them; and with a line of it left out."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.experiment import Experiment
from engine.model.launch import schedule_of
from engine.problem.bounds import blocks, visible, visible_keys
from engine.problem.dtype import round_to
from engine.problem.inputs import make_inputs
from engine.problem.terms import before_keys, with_terms
from engine.trace.softmax import exponentials, falling, log_sum_exp, raised


@dataclass(frozen=True)
class RowStatistics:
    """How the online softmax of some rows went, block by block, float32."""

    rows: np.ndarray  # [rows] query rows
    # m, l, alpha: [rows, key blocks] running maximum, running sum and rescale factor after each block, NaN
    # where it is not visited; of split keys those of the part that the block is in. Unfused attention has one
    # block, the whole row, and no alpha
    m: np.ndarray
    l: np.ndarray  # noqa: E741 - the field's name
    alpha: np.ndarray
    weight: np.ndarray  # [rows, key blocks] share of the final softmax mass in each tile; 0 where not visited
    lse: np.ndarray  # [rows] log-sum-exp, natural; -inf where a row sees no key
    # [rows, key blocks] the same of the keys up to and with each block, as m and l are
    lse_so_far: np.ndarray


def row_statistics(experiment: Experiment, q: np.ndarray, k: np.ndarray, rows) -> RowStatistics:
    """m, l, alpha and weights of some rows of one head, as `execute` computes them, all rows at once.

    q is [seq_q, d] and k [seq_kv, d]; costs O(rows * seq_kv * d). Where the schedule packs the heads that
    share keys, q and the rows are packed likewise.
    """
    rows = np.asarray(rows, np.int64)
    unfused, pipeline = experiment.record.unfused, experiment.record.pipeline
    along = -1 if any(phase.reverse for phase in schedule_of(experiment).phases) else 1
    scores = masked_scores(experiment, q, k, rows)
    if unfused:
        scores = round_to(scores, experiment.problem.stored)
    tiles = scores.reshape(len(rows), -1, experiment.tiling.block_kv)[:, ::along]
    first, more = (np.float32(each) for each in before_keys(experiment.problem))
    m, begins = tiles.max(2), _begins(experiment, rows, tiles.shape[1])
    starts = np.arange(m.shape[1]) == begins.argmax(1)[:, None]  # where a row's first program begins
    m = np.where(starts, raised(first, m, pipeline.threshold), m)
    parts = begins[:, 1:].any()
    if not parts and not pipeline.threshold:
        m = np.maximum.accumulate(m, axis=1)  # what the loop says, a hundred times as fast
    else:
        for block in range(1, m.shape[1]):
            running = raised(m[:, block - 1], m[:, block], pipeline.threshold)
            m[:, block] = np.where(begins[:, block], m[:, block], running)
    masses = exponentials(tiles, m[:, :, None], pipeline).sum(2)
    before = np.concatenate([np.full((len(rows), 1), -np.inf, np.float32), m[:, :-1]], 1)
    before = np.where(starts, first, np.where(begins, np.float32(-np.inf), before))
    alpha = falling(before, m)
    sums = masses + np.where(starts, more * alpha, np.float32(0))
    for block in range(1, sums.shape[1]):  # l = alpha l + the block's own
        sums[:, block] += alpha[:, block] * sums[:, block - 1]
    final, total = m[:, -1:], sums[:, -1:]
    if parts:  # over all of them
        final = m.max(1, keepdims=True)
        total = (masses * falling(m, final)).sum(1, keepdims=True)
        total = total + more * falling(np.full_like(final, first), final)
    weight = masses * falling(m, final) / np.where(total == 0, np.float32(1), total)
    lse = log_sum_exp(final, total)[:, 0]
    if unfused:
        return RowStatistics(rows, final, total, np.full_like(final, np.nan), weight, lse, lse[:, None])
    visited = visited_blocks(experiment, rows, m.shape[1])
    m, sums, alpha, so_far = (
        np.where(visited, column[:, ::along], np.float32(np.nan))
        for column in (m, sums, alpha, log_sum_exp(m, sums))
    )
    return RowStatistics(rows, m, sums, alpha, weight[:, ::along], lse, so_far)


def sampled_rows(experiment: Experiment, scores: int, values: int) -> np.ndarray:
    """Rows of every query block, in order: at least one, and no more scores in all, or values by block."""
    problem, tiling = schedule_of(experiment).problem, experiment.tiling
    query_blocks, key_blocks = blocks(problem.seq_q, tiling.block_q), blocks(problem.seq_kv, tiling.block_kv)
    most = min(scores // problem.seq_kv, values // key_blocks)
    each = max(1, min(tiling.block_q, most // query_blocks))
    within = (np.arange(each) * tiling.block_q + tiling.block_q // 2) // each
    rows = (np.arange(query_blocks)[:, None] * tiling.block_q + within).ravel()
    return np.unique(np.minimum(rows, problem.seq_q - 1))


@dataclass(frozen=True)
class HeadRow:
    """The scores of one query row of a head, from its first key block on."""

    row: int  # the query row
    first: int  # the key of the first score, the start of a key block
    scores: np.ndarray  # [keys] float64 scaled scores, -inf where masked
    values: np.ndarray  # [keys, 4] the first numbers of V of those keys
    seen: int  # keys that the row sees in all
    step: int  # scores that a key block has


@lru_cache(maxsize=64)
def middle_row(experiment: Experiment, most: int) -> HeadRow:
    """The middle query row of the first head, its scores in whole key blocks and at most so many."""
    alone = experiment.changed(batch=1, heads=1, kv_heads=1)
    problem, block = alone.problem, alone.tiling.block_kv
    row = problem.seq_q // 2
    (low,), (high,) = (bound.tolist() for bound in visible_keys(problem, np.array([row])))
    q, k, v = make_inputs(problem)
    first = low // block * block
    whole = min(max(most // block, 1) * block, most)
    stop = min(first + whole, max(blocks(high, block) * block, first + 1), problem.seq_kv)
    scores = masked_scores(alone, q[0], k[0], np.array([row]))[0, first:stop]
    values = v[0, first:stop, :4].astype(np.float64)
    return HeadRow(row, first, scores.astype(np.float64), values, max(high - low, 0), min(block, most))


def tile_share(rows: np.ndarray, weight: np.ndarray, block_q: int) -> np.ndarray:
    """[query blocks with rows, key blocks] mean of [rows, key blocks] over the rows, in order, of a tile."""
    first = np.flatnonzero(np.diff(rows // block_q, prepend=-1))
    counts = np.diff(first, append=len(rows))
    return np.add.reduceat(weight, first, axis=0) / counts[:, None]


def masked_scores(experiment: Experiment, q: np.ndarray, k: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """[rows, keys of whole blocks] float32 scaled scores, -inf where masked or past the last key."""
    problem, width = schedule_of(experiment).problem, experiment.tiling.block_kv
    scores = np.full((len(rows), blocks(problem.seq_kv, width) * width), -np.inf, np.float32)
    low, high = visible_keys(problem, rows)
    first, stop = int(low.min()), int(high.max())
    seen = scores[:, first:stop]
    seen[:] = q[rows] @ k[first:stop].T
    seen *= problem.scale
    if problem.terms:
        seen[:] = with_terms(problem, seen, rows, np.arange(first, stop))
    if problem.mask.has_holes or int(low.max()) > first or int(high.min()) < stop:
        seen[~visible(problem, rows, np.arange(first, stop))] = -np.inf
    return scores


def visited_blocks(experiment: Experiment, rows: np.ndarray, count: int) -> np.ndarray:
    """[rows, key blocks] bool: whether a row's query block visits the key block."""
    bounds, block = schedule_of(experiment).bounds, rows // experiment.tiling.block_q
    keys = np.arange(count)
    return (keys >= bounds.first[block][:, None]) & (keys < bounds.stop[block][:, None])


def _begins(experiment: Experiment, rows: np.ndarray, count: int) -> np.ndarray:
    """[rows, key blocks] bool: whether a program begins there, with a maximum and a sum of its own."""
    begins, programs = np.zeros((len(rows), count + 1), bool), schedule_of(experiment).phases[0].programs
    if programs.splits > 1:
        block = rows // experiment.tiling.block_q
        first, stop = (each.reshape(-1, programs.splits)[block] for each in programs.listed)
        np.put_along_axis(begins, np.where(first < stop, first, count), True, axis=1)
    return begins[:, :count]


@dataclass(frozen=True)
class GradientRows:
    """Some rows in the backward pass, float32."""

    rows: np.ndarray  # [rows] query rows
    lse: np.ndarray  # [rows] log-sum-exp that the forward pass kept, natural; -inf where a row sees no key
    delta: np.ndarray  # [rows] rowsum(dO o O)
    weight: np.ndarray  # [rows, key blocks] sum of P in each tile; a row's add up to 1
    # [rows, key blocks] sum of dS = P o (dP - delta) in each tile; a row's add up to 0
    score_gradient: np.ndarray


def gradient_rows(experiment: Experiment, q, k, v, d_out, rows) -> GradientRows:
    """The backward pass of rows of one head: q, d_out [seq_q, d], k, v [seq_kv, d], rounded to the dtype."""
    rows, problem, width = np.asarray(rows, np.int64), experiment.problem, experiment.tiling.block_kv
    scores = masked_scores(experiment, q, k, rows)
    first, more = (np.float32(each) for each in before_keys(problem))
    m = np.maximum(scores.max(1, keepdims=True), first)
    exponentials = falling(scores, m)
    total = exponentials.sum(1, keepdims=True) + more * falling(np.full_like(m, first), m)
    weights = exponentials / np.where(total == 0, np.float32(1), total)
    out = round_to(weights[:, : problem.seq_kv] @ v, problem.stored)
    delta = (d_out[rows] * out).sum(1)
    d_weights = np.zeros_like(weights)
    d_weights[:, : problem.seq_kv] = d_out[rows] @ v.T
    d_scores = weights * (d_weights - delta[:, None])
    lse = log_sum_exp(m, total)[:, 0]
    by_tile = (array.reshape(len(array), -1, width).sum(2) for array in (weights, d_scores))
    return GradientRows(rows, lse, delta, *by_tile)


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
