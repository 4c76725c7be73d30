"""Loop bounds against the mask, counted element by element."""

import numpy as np
from hypothesis import given

from engine import Experiment, simulate
from engine.problem.bounds import blocks, key_bounds, outline, query_bounds, visible_keys
from tests.engine.strategies import dense_mask, experiments


def tile_counts(experiment: Experiment) -> tuple[np.ndarray, np.ndarray]:
    """Visible elements and elements of every tile, [query blocks, key blocks]."""
    problem, tiling = experiment.problem, experiment.tiling
    mask = dense_mask(problem)
    shape = (blocks(problem.seq_q, tiling.block_q), blocks(problem.seq_kv, tiling.block_kv))
    seen, size = np.zeros(shape, int), np.zeros(shape, int)
    for i, j in np.ndindex(shape):
        rows = slice(i * tiling.block_q, (i + 1) * tiling.block_q)
        tile = mask[rows, j * tiling.block_kv : (j + 1) * tiling.block_kv]
        seen[i, j], size[i, j] = tile.sum(), tile.size
    return seen, size


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
    assert {slope for _, _, *edges in pieces for slope in edges[::2]} <= {0, 1}
    assert len(pieces) <= 8 * len(problem.mask.document_edges(problem.seq_kv))


def test_ten_keys_in_three_documents_by_hand():
    problem = Experiment.of(seq=10, documents=3).problem
    low, high = visible_keys(problem, np.arange(10))
    assert low.tolist() == [0, 0, 0, 3, 3, 3, 6, 6, 6, 6]
    assert high.tolist() == [3, 3, 3, 6, 6, 6, 10, 10, 10, 10]
