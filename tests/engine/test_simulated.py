"""Simulated timelines: every block once, no SM overfull, no faster than its units, near what a GPU ran."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.algorithms import ALGORITHMS
from engine.model.block_seconds import work_of
from engine.model.launch import HEAVY_FIRST, NATURAL, ORDERS, launch
from engine.model.placement import PLACED_ONE_BY_ONE
from engine.model.simulated_timeline import MOST_BLOCKS, simulate_timeline
from engine.model.timeline import TimelineError
from engine.recordings.file import recordings
from engine.recordings.timelines import timelines
from engine.schedule.nest import ROWS
from engine.studies.timeline_files import block_requests
from tests.engine.strategies import experiments

ORDER = st.sampled_from(ORDERS)
ANY = st.builds(
    lambda one, splits: one.changed(splits=splits), experiments(tuple(ALGORITHMS)), st.sampled_from([1, 2, 5])
)


SHORT = 25e-6  # seconds of a call; in shorter ones it tells that blocks start cold, which is not modelled


@cache
def recorded():
    """Every recorded timeline, with the simulated one of the same call."""
    found = [one for recording in recordings() for one in timelines(recording)]
    return [(one, simulate_timeline(one.experiment, one.order)) for one in found]


@given(ANY, ORDER)
def test_every_tile_is_visited_once_in_a_place_of_its_own_and_as_long_as_is_modelled(experiment, order):
    timeline, simulation = simulate_timeline(experiment, order), simulate(experiment)
    moved, (tiles, amounts) = simulation.traffic, block_requests(timeline)
    assert amounts.sum() == moved.requested.total
    for kernel in range(len(timeline.kernels)):
        assert tiles[timeline.kernel == kernel].sum() in (moved.tiles_visited, 0)  # 0: whole rows, no tiles
    named = np.stack((timeline.kernel, timeline.head, timeline.query_block, timeline.key_block), axis=1)
    rows = np.array([kernel.phase.launched == ROWS for kernel in launch(experiment).kernels])
    tiled = named[~rows[timeline.kernel]]
    assert len(np.unique(tiled, axis=0)) == len(tiled)  # blocks of single rows share a query block
    by_place = np.lexsort((timeline.start, timeline.place, timeline.sm))
    same = np.diff(timeline.sm[by_place] * 1000 + timeline.place[by_place]) == 0
    gaps = timeline.start[by_place][1:] - timeline.end[by_place][:-1]
    assert (gaps[same] >= -1e-12).all()
    assert (timeline.place < np.array(timeline.resident)[timeline.kernel]).all()
    reached, usual = experiment.gpu.reached, simulate_timeline(experiment)
    seconds = usual.seconds + reached.launch + reached.between_events
    assert simulation.modelled.seconds == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize("algorithm", ["flash2", "flash3"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "given",
    [{"seq": 16384, "heads": 64}, {"seq": 4096, "heads": 200}, {"seq": 8192, "heads": 97, "window": 1000}],
)
def test_grouping_the_first_of_many_blocks_costs_about_a_per_cent_at_most(algorithm, order, given):
    experiment = Experiment.of(
        algorithm=algorithm, causal=True, head_dim=128, block_q=128, hardware="h200", **given
    )
    simulation = simulate(experiment)
    (kernel,) = simulation.launch.kernels
    work = work_of(simulation.launch, kernel, simulation.traffic)
    assert kernel.blocks > PLACED_ONE_BY_ONE
    block = kernel.launched(order, 0, kernel.blocks)[1]
    assert work.lengths.of(block).sum() == pytest.approx(work.even * work.slots)
    exact = work.placed(order)[2].max()
    assert work.makespan(order) == pytest.approx(exact, rel=0.015)


def test_the_heaviest_blocks_first_leave_a_shorter_tail():
    experiment = Experiment.of(heads=16, seq=16384, head_dim=128, block_q=128, causal=True, hardware="h200")
    first, natural = (simulate_timeline(experiment, order) for order in (HEAVY_FIRST, NATURAL))
    assert first.tail < natural.tail / 5
    assert first.seconds < natural.seconds
    assert simulate_timeline(experiment) == first


def test_equal_blocks_fill_whole_waves():
    exact, one_more = (
        simulate_timeline(
            Experiment.of(heads=heads, seq=128, seq_kv=65536, head_dim=128, block_q=128, hardware="h200")
        )
        for heads in (132, 133)
    )
    assert exact.busy_share == pytest.approx(1)
    assert exact.wave.max() == 0
    assert one_more.wave.max() == 1
    assert one_more.seconds > 1.8 * exact.seconds


def test_a_timeline_that_is_too_long_says_so():
    with pytest.raises(TimelineError, match=f"at most {MOST_BLOCKS:,} blocks"):
        simulate_timeline(Experiment.of(algorithm="standard", seq=2**20))
    with pytest.raises(TimelineError, match="order is 'sideways'"):
        simulate_timeline(Experiment(), "sideways")


@pytest.mark.parametrize(
    ("algorithm", "median", "worst"),
    [
        ("flash1", 0.28, 0.4),  # short heads: L1 serves a tenth to a fifth of what its tiles ask for, counted
        ("flash2", 0.05, 0.3),
        ("flash3", 0.1, 0.4),
        ("standard", 0.11, 0.3),
    ],
)
def test_a_simulated_timeline_is_as_long_as_the_recorded_one(algorithm, median, worst):
    pairs = [(real, ours) for real, ours in recorded() if real.experiment.algorithm == algorithm]
    off = np.abs([ours.seconds / real.seconds - 1 for real, ours in pairs])
    assert len(off) >= 3
    assert np.median(off) < median
    assert off.max() < worst


def test_a_simulated_timeline_leaves_sms_as_idle_as_the_recorded_one():
    pairs = list(recorded())
    off = np.abs([ours.busy_share - real.busy_share for real, ours in pairs])
    short = np.array([real.seconds for real, _ in pairs]) < SHORT
    assert np.median(off) < 0.02
    assert off[~short].max() < 0.1
    assert off[short].max() < 0.2


def test_recorded_blocks_take_as_long_as_the_tiles_that_they_are_said_to_visit():
    """Which block is which is worked out from the launch order; the GPU's own clock agrees."""
    causal = [real for real, _ in recorded() if real.experiment.problem.mask.causal]
    # of tiles of a few visits those that start in empty caches take longest
    unequal = [real for real in causal if len(np.unique(block_requests(real)[0])) > 4]
    assert {(real.experiment.algorithm, real.order) for real in unequal} >= {
        ("flash2", HEAVY_FIRST),
        ("flash2", NATURAL),
        ("flash3", HEAVY_FIRST),
    }
    for real in unequal:
        assert np.corrcoef(block_requests(real)[0], real.end - real.start)[0, 1] > 0.95


def test_recorded_blocks_start_in_the_order_of_their_launch():
    for real, _ in recorded():
        for kernel in range(len(real.kernels)):
            if real.experiment.problem.mask.packed:  # numbers between documents are none of a tile
                continue
            start, ahead = real.start[real.kernel == kernel], 2 * real.sms * real.resident[kernel]
            assert (start[ahead:] >= start[:-ahead]).all()  # flash3 draws tiles ahead of time
        assert real.order == launch(real.experiment).order or real.order == NATURAL
