"""One scenario under every mask, and what sinks, a cap and ALiBi make of its scores.

The tile grid of a mask is a density that any length can be drawn from; scores are small exact examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter

import numpy as np

from engine.experiment import Experiment
from engine.model.simulation import Simulation, simulate
from engine.problem.bounds import KeyBounds, visible_keys, visible_pairs
from engine.problem.inputs import make_inputs
from engine.problem.problem import Mask
from engine.recordings.recording import Recording
from engine.recordings.timing import VariantTiming
from engine.studies.drawable import drawable
from engine.trace.rows import masked_scores

MOST_PIXELS = 96  # of a picture, either way; with fewer tiles each is drawn
SHARE = 8  # the window and the documents of a scenario that has none: an eighth of its keys each


@dataclass(frozen=True)
class Density:
    """The tile grid in pixels: [rows, columns] shares of a pixel's tiles that are visited and full."""

    visited: np.ndarray
    full: np.ndarray
    tiles: int  # the most that a pixel stands for

    @property
    def exact(self) -> bool:
        return self.tiles == 1


@dataclass(frozen=True)
class Masked:
    mask: Mask  # it
    simulation: Simulation  # of FlashAttention-2, which skips the tiles that the mask hides
    density: Density  # one head's tile grid
    own: bool  # whether it is the scenario's own mask

    @property
    def visited(self) -> float:
        counts = self.simulation.per_head
        return counts.tiles_visited / (counts.tiles_visited + counts.tiles_skipped)

    @property
    def skipped(self) -> float:
        return 1 - self.visited

    keys = property(attrgetter("simulation.experiment.problem.seq_kv"), doc="Of the problem.")

    def spares(self, other: Masked) -> float:
        return other.simulation.per_head.flops / self.simulation.per_head.flops


def masks_of(experiment: Experiment) -> tuple[Mask, ...]:
    """The masks to compare: none, causal, a window, documents, both; the scenario's, with its sizes."""
    problem = experiment.problem
    window = problem.mask.window or max(1, problem.seq_kv // SHARE)
    documents = problem.mask.documents if problem.mask.packed else SHARE
    causal, packed = Mask(causal=True), Mask(documents=documents)
    shown = Mask(), causal, replace(causal, window=window), packed, replace(packed, causal=True)
    return tuple(dict.fromkeys((*shown, plain(problem.mask))))


def plain(mask: Mask) -> Mask:
    """The same mask, causal wherever it looks back only."""
    return mask if mask.looks_ahead else replace(mask, causal=True, ahead=0)


@lru_cache(maxsize=64)
def under_masks(experiment: Experiment) -> tuple[Masked, ...]:
    """The scenario under each of `masks_of`, computed by FlashAttention-2 with the scenario's blocks."""
    own = plain(experiment.problem.mask)
    found = []
    for mask in masks_of(experiment):
        simulation = simulate(experiment.changed(algorithm="flash2", mask=mask))
        tiles = density(simulation.schedule.bounds, len(simulation.schedule.key_rows))
        found.append(Masked(mask, simulation, tiles, mask == own))
    return tuple(found)


def density(bounds: KeyBounds, key_blocks: int, most: int = MOST_PIXELS) -> Density:
    """The tile grid drawn with at most `most` pixels either way; O(query blocks + pixels)."""
    query_blocks = len(bounds.first)
    rows, columns = _edges(query_blocks, most), _edges(key_blocks, most)
    size = np.diff(rows)[:, None] * np.diff(columns)
    visited = _covered(bounds.stop, rows, columns) - _covered(bounds.first, rows, columns)
    full = _covered(bounds.full_stop, rows, columns) - _covered(bounds.full_first, rows, columns)
    return Density(visited / size, full / size, int(size.max()))


def _edges(count: int, most: int) -> np.ndarray:
    """[pixels + 1] where pixels start among so many blocks, and where the last one ends."""
    pixels = min(count, most)
    return np.arange(pixels + 1) * count // pixels


def _covered(ends: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """[pixel rows, pixel columns] tiles that lie before their row's end; ends [query blocks] never fall.

    Within a pixel row the sum of min(end, column) is a prefix sum up to where the ends pass the column.
    """
    sums = np.concatenate(([0], np.cumsum(ends)))
    low, high = rows[:-1, None], rows[1:, None]
    passed = np.clip(np.searchsorted(ends, columns), low, high)
    return np.diff(sums[passed] - sums[low] + (high - passed) * columns, axis=1)


@dataclass(frozen=True)
class VariantCost:
    row: VariantTiming  # with a time
    plain: VariantTiming  # that was timed in turns with it
    seen: float  # share of all pairs of a query and a key that the row leaves

    @property
    def over(self) -> float:
        """Its FLOP/s over those of the plain row, each counted on the pairs that it leaves."""
        return self.row.tflops / self.plain.tflops


def variant_costs(recording: Recording, direction: str) -> tuple[VariantCost, ...]:
    """Every row of a direction that has a time, in the file's order."""
    rows = [row for row in recording.variants if row.direction == direction and row.times is not None]
    pairs = [(row, beside(row, rows)) for row in rows]
    return tuple(VariantCost(row, plain, seen(row)) for row, plain in pairs if plain)


def beside(row: VariantTiming, rows: Sequence[VariantTiming]) -> VariantTiming | None:
    """The plain row of its kernel, direction and commit beside it: causal where it looks back only.

    With a term one of its head dim, if there is one.
    """
    causal, same = not row.problem.mask.looks_ahead, attrgetter("provider", "direction", "commit")
    plain = [each for each in rows if each.plain and same(each) == same(row)]
    plain = [each for each in plain if each.problem.mask.causal is causal]
    other = bool(row.term)
    return min(plain, key=lambda each: other * (each.problem.head_dim != row.problem.head_dim), default=None)


def seen(row: VariantTiming) -> float:
    """Share of all pairs of a query and a key that its mask leaves."""
    return visible_pairs(row.whole) / (row.problem.seq_q * row.problem.seq_kv)


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
