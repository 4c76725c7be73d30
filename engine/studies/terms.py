"""What sinks, a cap and ALiBi make of a scenario's scores: small exact examples, in float64."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.experiment import Experiment
from engine.problem.bounds import visible_keys
from engine.problem.inputs import make_inputs
from engine.studies.drawable import drawable
from engine.trace.rows import masked_scores

SINKS = (0.0, 4.0, 8.0)  # logits
CAPS = (2.0, 5.0, 50.0)
MOST_ROWS, MOST_TILES = 256, 16  # of a picture: rows of the head, tiles either way
FAINT = 1e-3
ALIBI = 8  # the last head's slope is 2 to the power of minus this, arXiv 2108.12409


@dataclass(frozen=True)
class ScoreTerms:
    rows: np.ndarray  # [rows] the query rows, evenly spread
    # by a sink's logit, [rows] what the weights of a row's keys sum to; 0 where it sees no key
    sums: dict[float, np.ndarray]
    most: float  # the largest size of a score that a row sees, without a term; at least 1
    keys: int  # how many keys the head has; fewer than the scenario's where that is too long


@lru_cache(maxsize=16)
def score_terms(experiment: Experiment) -> ScoreTerms:
    alone = drawable(experiment, MOST_TILES).changed(batch=1, heads=1, kv_heads=1)
    problem = alone.problem
    rows = np.unique(np.linspace(0, problem.seq_q - 1, MOST_ROWS).round().astype(np.int64))
    q, k, _ = make_inputs(problem)
    scores = masked_scores(alone, q[0], k[0], rows).astype(np.float64)
    sums = {}
    for sink in SINKS:  # a softmax with one more logit, whose weight is left out
        m = np.maximum(scores.max(1, keepdims=True), sink)
        weights = np.exp(scores - m)
        sums[sink] = (weights / (weights.sum(1, keepdims=True) + np.exp(sink - m))).sum(1)
    most = float(np.abs(scores).max(initial=1, where=np.isfinite(scores)))
    return ScoreTerms(rows, sums, most, problem.seq_kv)


def capped(scores: np.ndarray, cap: float) -> np.ndarray:
    return cap * np.tanh(scores / cap)


@dataclass(frozen=True)
class Ramp:
    """What ALiBi leaves of the weights of one head, tile by tile."""

    head: int  # counted from 1
    slope: float  # what a score falls by per key of distance
    # [query blocks, key blocks] exp(-slope distance) of a tile's nearest visible pair, the most that one of
    # its weights keeps; 0 where it has none
    left: np.ndarray
    keys: int  # how many there are; fewer than the scenario's where that is too long

    @property
    def faint(self) -> float:
        """Share of the tiles with visible pairs in which no weight keeps a thousandth."""
        shown = self.left[self.left > 0]
        return float((shown < FAINT).mean()) if shown.size else 0.0

    @property
    def halves(self) -> float:
        """Keys of distance over which a weight falls by half."""
        return np.log(2) / self.slope


@lru_cache(maxsize=16)
def ramps(experiment: Experiment) -> tuple[Ramp, ...]:
    """Of the first, the middle and the last head, under the scenario's mask."""
    small, heads = drawable(experiment, MOST_TILES), experiment.problem.heads
    shown = sorted({1, (heads + 1) // 2, heads})
    slopes = {head: slope_of(head, heads) for head in shown}
    return tuple(Ramp(head, of, ramp(small, of), small.problem.seq_kv) for head, of in slopes.items())


def slope_of(head: int, heads: int) -> float:
    """A head's slope, heads counted from 1: a geometric sequence that ends at 2^-8."""
    return 2.0 ** (-ALIBI * head / heads)


def ramp(experiment: Experiment, slope: float) -> np.ndarray:
    """[query blocks, key blocks] exp(-slope distance) of a tile's nearest visible pair; 0 without one."""
    problem, tiling = experiment.problem, experiment.tiling
    rows = np.arange(problem.seq_q)
    position = problem.positions(rows)[:, None]
    low, high = (bound[:, None] for bound in visible_keys(problem, rows))
    edges = np.arange(0, problem.seq_kv, tiling.block_kv)
    first, last = np.maximum(edges, low), np.minimum(edges + tiling.block_kv, high) - 1
    distance = abs(position - np.clip(position, first, np.maximum(first, last)))
    distance = np.where(first <= last, distance, np.inf)
    starts = np.arange(0, problem.seq_q, tiling.block_q)
    return np.exp(-slope * np.minimum.reduceat(distance, starts, axis=0))
