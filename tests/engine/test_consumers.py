"""Key blocks of flash3's consumers, against the mask itself, row by row."""

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.model.consumers import _own_blocks, tile_visits
from engine.model.launch import launch
from engine.model.rates import SCHEDULED, Rates
from engine.model.tiles import apart_seconds
from engine.model.unfused import running_clock
from engine.model.visit import mask_instructions, visit_of
from engine.problem.bounds import visible

MASKS = ({}, {"causal": True}, {"causal": True, "window": 100}, {"causal": True, "window": 256})


def call(head_dim: int, seq: int, seq_q: int | None = None, **mask):
    """A launch of one head."""
    one = Experiment.of(algorithm="flash3", hardware="h200", seq=seq, head_dim=head_dim, heads=1, **mask)
    return launch(one if seq_q is None else one.changed(seq_q=seq_q))


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize(("head_dim", "seq"), [(64, 1003), (64, 1024), (128, 515), (256, 515), (64, 300)])
def test_a_consumer_has_the_key_blocks_that_its_rows_see(head_dim, seq, mask):
    run = call(head_dim, seq, **mask)
    seen, tiling, (phase,) = visible(run.problem), run.tiling, run.schedule.phases
    first, stop, cut = _own_blocks(run)
    for tile in range(len(cut)):
        before = 0 if phase.boxes is None else tile * tiling.block_q
        cuts = []
        for group in range(tiling.block_q // 64):
            row = min(tile * tiling.block_q + 64 * group, (seq - 1) // 64 * 64)
            rows = seen[row : row + 64]
            keys = np.flatnonzero(rows.any(0)) - before
            assert (first[group, tile], stop[group, tile] - 1) == (
                keys[0] // tiling.block_kv,
                keys[-1] // tiling.block_kv,
            )
            whole = 0
            for block in range(first[group, tile], stop[group, tile]):
                at = np.arange(block * tiling.block_kv, (block + 1) * tiling.block_kv) + before
                inside = at[(at >= 0) & (at < seq)]
                whole += rows[:, inside].all() and (at[0] >= 0 or at[-1] < 0)
            cuts.append(stop[group, tile] - first[group, tile] - whole)
        assert cut[tile] == np.mean(cuts)


def test_visits_of_fewer_consumers_take_less_and_masked_ones_more():
    """d 256, causal, in 128 x 64: the last block of a tile is the second consumer's alone."""
    run = call(256, 512, causal=True)
    rates = Rates.of(run.gpu, "float16")
    visit = visit_of(run, run.schedule.phases[0], rates)
    whole, apart = visit.alone(run.pipeline), apart_seconds(run, rates)
    assert whole < apart < 2 * whole
    both = run.schedule.phases[0].visits - 1  # the first of which another consumer's runs beside already
    expected = both + (apart / 2 + visit.masking - (apart - whole)) / whole
    assert tile_visits(run, visit, rates) == pytest.approx(expected)


@pytest.mark.parametrize("window", [None, 256])
def test_where_edges_pass_between_blocks_consumers_have_the_tiles_own(window):
    """d 128, in 128 x 128, many keys: each masks a half of every block that an edge passes through."""
    run = call(128, 4096, causal=True, window=window)
    assert not run.algorithm.skips(run.problem, run.tiling)
    assert run.algorithm.skips(call(128, 4096, causal=True, window=257).problem, run.tiling)
    rates = Rates.of(run.gpu, "float16")
    visit = visit_of(run, run.schedule.phases[0], rates)
    edges = 1 if window is None else 2
    every = edges * visit.masking / visit.alone(run.pipeline)
    assert tile_visits(run, visit, rates)[4:] == pytest.approx(run.schedule.phases[0].visits[4:] + every)
    assert visit.masking == pytest.approx(mask_instructions(run) / 2 / SCHEDULED / running_clock(run.gpu))
