"""A scenario under every mask, and its tile grid as pixels, against the mask element by element."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.problem.bounds import key_bounds, visible_pairs
from engine.problem.problem import Mask, Problem
from engine.studies.masks import density, masks_of, plain, under_masks
from tests.engine.strategies import dense_mask, experiments
from tests.engine.test_bounds import tile_counts


@given(experiments(algorithms=("flash2",)), st.integers(1, 9))
def test_a_pixel_is_the_share_of_its_tiles_that_are_visited_and_full(experiment, most):
    seen, size = tile_counts(experiment)
    found = density(key_bounds(experiment.problem, experiment.tiling), seen.shape[1], most)
    pixels = [min(count, most) for count in seen.shape]
    assert found.visited.shape == tuple(pixels)
    assert found.exact == (max(seen.shape) <= most)
    rows, columns = (
        [p * count // n for p in range(n + 1)] for n, count in zip(pixels, seen.shape, strict=True)
    )
    for i, j in np.ndindex(*pixels):
        part = slice(rows[i], rows[i + 1]), slice(columns[j], columns[j + 1])
        assert found.visited[i, j] == pytest.approx((seen[part] > 0).mean())
        assert found.full[i, j] == pytest.approx((seen[part] == size[part]).mean())


@given(experiments())
@settings(max_examples=40)
def test_every_masks_pixels_are_of_its_tiles(experiment):
    for one in under_masks(experiment):
        problem = one.simulation.experiment.problem
        assert visible_pairs(problem) == dense_mask(problem).sum()
        seen, _ = tile_counts(one.simulation.experiment)
        assert one.density.visited.mean() == pytest.approx((seen > 0).mean(), abs=0.2)


@given(experiments())
@settings(max_examples=20)  # each is simulated under five masks
def test_the_scenarios_own_mask_is_among_them_once(experiment):
    own = [one for one in under_masks(experiment) if one.own]
    assert len(own) == 1
    traffic, alike = own[0].simulation.traffic, simulate(experiment.changed(algorithm="flash2")).traffic
    assert traffic.requested == alike.requested
    assert traffic.per_head == alike.per_head


def test_a_window_is_the_same_with_causal_and_without():
    assert plain(Mask(window=5)) == plain(Mask(causal=True, window=5)) == Mask(causal=True, window=5)


def test_what_the_scenario_lacks_is_an_eighth_of_its_keys():
    assert masks_of(Experiment.of(seq=4096)) == (
        Mask(),
        Mask(True),
        Mask(True, 512),
        Mask(documents=8),
        Mask(True, documents=8),
    )
    assert masks_of(Experiment.of(seq=4096, window=100, documents=3))[-1] == Mask(True, 100, 3)


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
