"""How often a head really rescales: what its scores make the running maximum do, block by block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from engine.algorithms.flash4 import THRESHOLD
from engine.experiment import BLOCKS, Experiment
from engine.model.launch import schedule_of
from engine.problem.heads import kept, text_of
from engine.problem.inputs import make_inputs
from engine.small.model import small
from engine.trace.rows import masked_scores
from engine.trace.softmax import OnlineSteps, falling, naive_sums, online_steps, raised

WINDOWS = (64, 256)
MOST_ROWS, MOST_HEADS, MOST_KEYS = 128, 16, 4096


@dataclass(frozen=True)
class HeadRescales:
    """One head, in the mean over its rows with keys."""

    head: int  # its number
    rises: float  # share of the key blocks after a row's first at which its maximum rises
    kept: float  # share of those rises that stay below THRESHOLD, so that nothing need be rescaled
    # share of the key blocks at which sums are rescaled where a maximum stays below THRESHOLD
    rescaled: float
    # the largest difference that this makes to a number of O, in float32, beside the largest of O
    error: float
    first: float  # share of the weight on the first key
    distance: float  # how far back the weight lies, in keys
    entropy: float  # of a row's weights, in bits
    outside: dict[int, float]  # by window, the share of the weight on keys before it


@lru_cache(maxsize=32)
def rescales(experiment: Experiment) -> list[HeadRescales]:
    """Every head of the scenario's numbers, at most MOST_HEADS, on at most MOST_KEYS keys.

    Key blocks come in the order of the experiment's algorithm: FlashAttention-3 and -4 begin with the last.
    """
    problem = experiment.problem
    keys = min(problem.seq_kv, MOST_KEYS)
    one = experiment.changed(batch=1, seq=min(problem.seq_q, keys), seq_kv=keys)
    found = kept(one.problem.inputs)
    heads, first = (len(found[0].q), found[1]) if found else (problem.heads, 0)
    many = min(MOST_HEADS, heads)
    return [
        _of_head(one, arrays, (first + head) % heads)
        for head, arrays in enumerate(zip(*make_inputs(one.problem, heads=many), strict=True))
    ]


def of_all_layers(experiment: Experiment) -> list[list[HeadRescales]]:
    """The same of every layer of the small model on the scenario's text; of other numbers, of one layer."""
    named = text_of(experiment.problem.inputs)
    if named is None:
        return [rescales(experiment)]
    blocks = {name: getattr(experiment.tiling, name) for name in BLOCKS}
    names = (f"text:{layer}.0:{named[2]}" for layer in range(small().shape.layers))
    return [rescales(experiment.on(name).changed(**blocks)) for name in names]


def in_all(found: list[HeadRescales]) -> tuple[float, float]:
    """The shares of key blocks over all heads: where maxima rise, and where a threshold still rescales."""
    return sum(each.rises for each in found) / len(found), sum(each.rescaled for each in found) / len(found)


def raised_at(scores: np.ndarray) -> np.ndarray:
    """Of a row of scores, those that were larger than all before."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(scores), prepend=-np.inf) > 0)


def _of_head(one: Experiment, arrays: tuple[np.ndarray, ...], head: int) -> HeadRescales:
    problem, block = one.problem, one.tiling.block_kv
    q, k, v = arrays
    rows = np.unique(np.linspace(0, problem.seq_q - 1, min(MOST_ROWS, problem.seq_q)).astype(int))
    alone = one.changed(heads=1, kv_heads=1)
    scores = masked_scores(alone, q, k, rows).astype(np.float64)
    scores = scores[np.isfinite(scores).any(1)]
    rows = rows[-len(scores) :]
    v = np.pad(v, ((0, scores.shape[1] - len(v)), (0, 0)))  # to whole blocks, as the scores are
    along = -1 if any(phase.reverse for phase in schedule_of(one).phases) else 1
    tiles = scores.reshape(len(scores), -1, block)[:, ::along]
    maximum = np.maximum.accumulate(tiles.max(2), axis=1)
    before, after = maximum[:, :-1], maximum[:, 1:]
    visited = np.isfinite(tiles.max(2))[:, 1:] & np.isfinite(before)
    rose = (after > before) & visited
    small = rose & ((after - np.where(np.isfinite(before), before, 0)) * np.log2(np.e) < THRESHOLD)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    positions = problem.positions(rows)[:, None]
    places = np.arange(scores.shape[1])
    outside = {window: float((weights * (places <= positions - window)).sum(1).mean()) for window in WINDOWS}
    exact = weights @ v.astype(np.float64)
    out, rescaled = _skipping(tiles, v.reshape(tiles.shape[1], block, -1)[::along])
    return HeadRescales(
        head, float(rose.sum() / max(1, visited.sum())), float(small.sum() / max(1, rose.sum())),
        rescaled / max(1, int(visited.sum())), float(np.abs(out - exact).max() / np.abs(exact).max()),
        float(weights[:, 0].mean()), float((weights * (positions - places)).sum(1).mean()),
        float(-(weights * np.log2(np.where(weights > 0, weights, 1))).sum(1).mean()), outside,
    )  # fmt: skip


def _skipping(tiles: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, int]:
    """[rows, d of V] O in float32, where a maximum that rises by little is left; and how many were not.

    tiles are [rows, blocks, keys], values [blocks, keys, d of V].
    """
    rows, blocks, _ = tiles.shape
    rescaled = 0
    m, l = np.full(rows, -np.inf), np.zeros(rows, np.float32)  # noqa: E741
    out = np.zeros((rows, values.shape[2]), np.float32)
    for index in range(blocks):
        scores = tiles[:, index]
        new = raised(m, scores.max(1), THRESHOLD)
        rescaled += int(((new > m) & np.isfinite(m)).sum())
        alpha = falling(m, new).astype(np.float32)
        p = falling(scores, new[:, None]).astype(np.float32)
        l = alpha * l + p.sum(1)  # noqa: E741
        out = alpha[:, None] * out + p @ values[index]
        m = new
    return out / l[:, None], rescaled


TILE = 4  # keys
SCORES = (0.7, -0.5, 1.4, 0.1, 0.35, 1.82, -0.95, 0.6, 1.3, -0.25, 2.46, 1.05, -0.6, 0.2, 1.65, -1.2)
LATE, MUCH = 13, 7.4  # the number of a score, and what it is where it raises m by more than a threshold
DIMS, SEED = 4, 4  # numbers of O that are shown, and what V is drawn from where a row has none


@dataclass(frozen=True)
class Rescaling:
    """A row of scores and the values that it weighs, read a tile at a time, float64."""

    scores: np.ndarray  # [keys] the row of S, -inf where a key is masked
    values: np.ndarray  # [keys, dims] the rows of V
    block: int  # keys in a tile
    dtype: str = "float16"  # in which a softmax without its maximum would sum
    threshold: float = 0.0  # in log2, by how much a score must pass m to raise it; `steps` are without one

    @cached_property
    def steps(self) -> OnlineSteps:
        return online_steps(self.scores, self.block)

    @cached_property
    def naive(self) -> np.ndarray:
        """[tiles] the sum of e^s without a maximum after every tile, infinite once it has overflowed."""
        return naive_sums(self.scores, self.dtype)[self.steps.stops - 1]


def row_of(scores: np.ndarray, block: int, dtype: str) -> Rescaling:
    values = np.random.default_rng(SEED).standard_normal((len(scores), DIMS))
    return Rescaling(np.asarray(scores, np.float64), np.round(values, 2), block, dtype)


def example() -> Rescaling:
    """Sixteen keys in four tiles, the maximum rising in the first three."""
    return row_of(np.array(SCORES), TILE, "float16")


def with_threshold() -> Rescaling:
    """The same with a late score that passes FlashAttention-4's threshold, where the others do not."""
    scores = np.array(SCORES)
    scores[LATE] = MUCH
    return replace(row_of(scores, TILE, "float16"), threshold=THRESHOLD)
