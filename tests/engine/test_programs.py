"""Sums of loop nests in closed form against the programs listed one by one; nothing grows with a link."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Experiment
from engine.algorithms import ring
from engine.model import block_seconds, l2
from engine.model.launch import launch
from engine.model.simulation import simulate
from engine.problem import bounds
from engine.studies.drawable import watchable
from tests.engine.strategies import experiments

SPLITS = st.sampled_from([1, 2, 3, 7, 40])


def forget():
    launch.cache_clear()
    simulate.cache_clear()


@settings(max_examples=25)
@given(experiments(algorithms=("split_kv", "ring"), most_heads=3), SPLITS, st.integers(1, 20))
def test_runs_of_alike_blocks_sum_to_what_every_block_does(experiment, splits, group):
    """As a link of 67 million programs is summed, on problems small enough to list all of them."""
    problem = experiment.problem
    experiment = experiment.changed(splits=splits, heads=problem.kv_heads * group)
    forget()
    listed = simulate(experiment)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for module in (bounds, l2, block_seconds):
                patch.setattr(module, "MOST_LISTED", 0)
            forget()
            summed = simulate(experiment)
            nests = list(zip(summed.schedule.phases, listed.schedule.phases, strict=True))
            assert summed.traffic == listed.traffic
            assert summed.footprint == listed.footprint
            assert summed.modelled.seconds == pytest.approx(listed.modelled.seconds, rel=1e-2)
    finally:
        forget()
    for mine, theirs in nests:
        assert mine.programs.count == len(theirs.visits)
        assert (mine.first == theirs.first).all()
        assert (mine.stop == theirs.stop).all()
        assert mine.programs.filled == (theirs.visits > 0).sum()
        assert mine.programs.all_visits == theirs.visits.sum()


HARD = [
    {"algorithm": "split_kv", "seq": 2**20, "splits": 1024, "block_q": 16},
    {"algorithm": "split_kv", "seq": 2**20, "splits": 1024, "block_q": 16, "heads": 1024, "kv_heads": 1},
    {"algorithm": "flash3", "seq": 2**20, "seq_kv": 1, "causal": True, "batch": 4096},
    {"algorithm": "ring", "seq": 2**20, "splits": 1024, "block_q": 16, "block_kv": 16, "causal": True},
]


@pytest.mark.parametrize("values", HARD, ids=lambda values: values["algorithm"])
def test_a_link_that_asks_for_millions_of_programs_takes_little_memory(values):
    forget()
    tracemalloc.start()
    try:
        simulate(Experiment.of(**values))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 180e6
    assert launch.bytes < 16e6


@pytest.mark.parametrize("values", HARD, ids=lambda values: values["algorithm"])
def test_what_is_watched_of_it_is_found_at_all(values):
    small = watchable(Experiment.of(**values), 300)
    assert launch(small).blocks <= 300


def test_the_chunks_that_a_query_block_reaches_are_counted_where_chunks_hold_no_block():
    share = ring.ChunkShare(ring.Order(5, True), 3, 7)  # 10 chunks, 7 key blocks
    for first in range(7):
        for stop in range(first + 1, 8):
            begin, end = share.of(first, stop, np.full(10, 2), np.arange(10))
            assert share.filled(first, stop) == (end > begin).sum()
            assert (end - begin).sum() == stop - first
