"""Bounds, tile grids and terms of scores against masks element by element, and what every mask costs."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.problem.bounds import (
    key_bounds,
    outline,
    query_bounds,
    visible,
    visible_keys,
    visible_pairs,
)
from engine.problem.inputs import make_inputs
from engine.problem.problem import Mask, Problem
from engine.studies.masks import (
    CAPS,
    SINKS,
    capped,
    density,
    masks_of,
    plain,
    ramp,
    ramps,
    score_terms,
    slope_of,
    under_masks,
)
from tests.engine.strategies import dense_mask, experiments, tile_counts

SMALL = Experiment.of(seq=96, heads=4, block_q=32, block_kv=32, causal=True)


@given(experiments())
def test_bounds_and_counts_name_exactly_the_tiles_that_the_mask_shows(experiment):
    seen, size = tile_counts(experiment)
    counts, bounds = simulate(experiment).traffic.per_head, key_bounds(experiment.problem, experiment.tiling)
    assert counts.tiles_full == (seen == size).sum()
    assert counts.tiles_partial == ((seen > 0) & (seen < size)).sum()
    assert counts.tiles_visited + counts.tiles_skipped == seen.size
    hidden = (seen == 0).sum() if experiment.algorithm == "standard" else 0
    assert (counts.tiles_visited, counts.tiles_masked) == ((seen > 0).sum() + hidden, hidden)
    keys, queries = np.arange(seen.shape[1]), np.arange(seen.shape[0])[:, None]
    visited = (keys >= bounds.first[:, None]) & (keys < bounds.stop[:, None])
    full = (keys >= bounds.full_first[:, None]) & (keys < bounds.full_stop[:, None])
    first, stop = query_bounds(bounds, seen.shape[1])
    np.testing.assert_array_equal(visited, seen > 0)
    np.testing.assert_array_equal(full, seen == size)
    np.testing.assert_array_equal((queries >= first) & (queries < stop), seen > 0)


@given(experiments(algorithms=("flash2",)))
def test_every_row_sees_one_stretch_of_keys_whose_edges_the_outline_has(experiment):
    problem = experiment.problem
    low, high = visible_keys(problem, np.arange(problem.seq_q))
    keys, pieces = np.arange(problem.seq_kv), outline(problem)
    np.testing.assert_array_equal((keys >= low[:, None]) & (keys < high[:, None]), dense_mask(problem))
    ends = [first for first, *_ in pieces[1:]] + [problem.seq_q]
    drawn = [
        (low + at * low_slope, stop + at * stop_slope)
        for (first, low, low_slope, stop, stop_slope), end in zip(pieces, ends, strict=True)
        for at in range(end - first)
    ]
    assert drawn == list(zip(low, high, strict=True))
    assert visible_pairs(problem) == dense_mask(problem).sum()
    assert {slope for _, _, *edges in pieces for slope in edges[::2]} <= {0, 1}
    assert len(pieces) <= 8 * len(problem.mask.document_edges(problem.seq_kv))


@given(experiments(algorithms=("flash2",)), st.integers(1, 9))
def test_a_pixel_is_the_share_of_its_tiles_that_are_visited_and_full(experiment, most):
    seen, size = tile_counts(experiment)
    found = density(key_bounds(experiment.problem, experiment.tiling), seen.shape[1], most)
    pixels = [min(count, most) for count in seen.shape]
    assert found.visited.shape == tuple(pixels)
    assert found.exact == (max(seen.shape) <= most)
    sizes = zip(pixels, seen.shape, strict=True)
    rows, columns = ([p * count // n for p in range(n + 1)] for n, count in sizes)
    for i, j in np.ndindex(*pixels):
        part = slice(rows[i], rows[i + 1]), slice(columns[j], columns[j + 1])
        assert found.visited[i, j] == pytest.approx((seen[part] > 0).mean())
        assert found.full[i, j] == pytest.approx((seen[part] == size[part]).mean())


@given(experiments())
@settings(max_examples=20)  # each is simulated under five masks
def test_the_scenarios_own_mask_is_among_them_once(experiment):
    own = [one for one in under_masks(experiment) if one.own]
    assert len(own) == 1
    traffic, alike = own[0].simulation.traffic, simulate(experiment.changed(algorithm="flash2")).traffic
    assert traffic.requested == alike.requested
    assert traffic.per_head == alike.per_head


def test_what_the_scenario_lacks_is_an_eighth_of_its_keys_and_a_window_is_the_same_if_causal():
    own = Mask(), Mask(True), Mask(True, 512), Mask(documents=8), Mask(True, documents=8)
    assert masks_of(Experiment.of(seq=4096)) == own
    assert masks_of(Experiment.of(seq=4096, window=100, documents=3))[-1] == Mask(True, 100, 3)
    assert plain(Mask(window=5)) == plain(Mask(causal=True, window=5)) == Mask(causal=True, window=5)


def test_a_million_tokens_are_drawn_without_listing_their_tiles():
    experiment = Experiment.of(seq=2**20, block_q=128, block_kv=64, causal=True)
    bounds = key_bounds(experiment.problem, experiment.tiling)
    tracemalloc.start()
    found = density(bounds, 2**14)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**23  # 2^27 tiles
    assert found.visited.shape == (96, 96)
    assert found.visited.mean() == pytest.approx(0.5, abs=0.01)


@given(st.integers(1, 40), st.integers(1, 300))
def test_documents_are_as_equal_as_whole_keys_allow(documents, keys):
    problem = Problem(seq_q=keys, seq_kv=keys, mask=Mask(documents=documents))
    lengths = np.diff(problem.mask.document_edges(problem.seq_kv))
    assert problem.mask.document_lengths(keys) == lengths.tolist()
    assert lengths.max() - lengths.min() <= 1


def test_what_a_causal_mask_spares_by_hand():
    """256 keys in 64 x 64 tiles: 10 of 16 tiles are computed."""
    experiment = Experiment.of(heads=1, seq=256, causal=True)
    none, causal = under_masks(experiment)[:2]
    assert (causal.visited, causal.skipped) == (10 / 16, 6 / 16)
    assert causal.spares(none) == pytest.approx(16 / 10)
    assert none.spares(causal) == pytest.approx(10 / 16)
    assert none.skipped == 0


def test_weights_and_the_sinks_share_sum_to_one():
    """1 / (1 + exp(sink - lse)) is what a sink leaves, a formula that the study does not use."""
    found = score_terms(SMALL)
    q, k, _ = make_inputs(SMALL.changed(heads=1, kv_heads=1).problem)
    scores = (q[0].astype(np.float64) @ k[0].astype(np.float64).T) / math.sqrt(64)
    scores = np.where(np.tri(96, dtype=bool), scores, -np.inf)[found.rows]
    lse = np.log(np.exp(scores).sum(1))
    for sink in SINKS:
        assert found.sums[sink] == pytest.approx(1 / (1 + np.exp(sink - lse)), rel=1e-5)
    assert found.most == pytest.approx(np.abs(scores[np.isfinite(scores)]).max(), rel=1e-5)
    assert found.keys == 96


def test_a_row_without_keys_gives_all_to_the_sink():
    found = score_terms(Experiment.of(seq=64, seq_kv=32, causal=True))
    assert (found.sums[0.0][found.rows < 32] == 0).all()


def test_a_cap_bounds_scores_and_leaves_small_ones_alone():
    scores = np.array([-100.0, -0.01, 0.0, 1.0, 100.0])
    for cap in CAPS:
        found = capped(scores, cap)
        assert found[[0, -1]] == pytest.approx([-cap * math.tanh(100 / cap), cap * math.tanh(100 / cap)])
        assert abs(found).max() < cap + 1e-9
        assert found[1] == pytest.approx(-0.01, rel=1e-5)
    assert capped(np.array([1.0]), 2.0)[0] == pytest.approx(2 * 0.46211715726)


@pytest.mark.parametrize(
    "values",
    [
        {"causal": True},
        {"seq_kv": 130, "window": (40, 9), "block_kv": 64},
        {"seq": 70, "seq_kv": 33, "causal": True},
        {"documents": (50, 46)},
    ],
    ids=str,
)
def test_a_tile_of_the_ramp_is_the_most_that_a_pair_keeps(values):
    experiment = SMALL.changed(causal=False, **values) if "causal" not in values else SMALL.changed(**values)
    problem, tiling = experiment.problem, experiment.tiling
    position = problem.positions(np.arange(problem.seq_q))[:, None]
    left = np.exp(-0.1 * abs(position - np.arange(problem.seq_kv)))
    seen, found = visible(problem), ramp(experiment, 0.1)
    for i, j in np.ndindex(found.shape):
        tile = np.s_[
            i * tiling.block_q : (i + 1) * tiling.block_q, j * tiling.block_kv : (j + 1) * tiling.block_kv
        ]
        most = left[tile][seen[tile]].max() if seen[tile].any() else 0.0
        assert found[i, j] == pytest.approx(most, abs=1e-12)


def test_slopes_fall_from_head_to_head_to_an_eighth_power():
    assert [slope_of(head, 8) for head in range(1, 9)] == [2.0**-head for head in range(1, 9)]
    shown = ramps(SMALL)
    assert [one.head for one in shown] == [1, 2, 4]
    assert shown[0].halves == pytest.approx(math.log(2) * 4)
    assert shown[-1].halves == pytest.approx(177.4, rel=1e-3)
    assert [one.head for one in ramps(SMALL.changed(heads=1, kv_heads=1))] == [1]
