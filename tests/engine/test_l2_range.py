"""The range around modelled DRAM bytes: what was read lies in it; where there is none, the number holds."""

from __future__ import annotations

from statistics import median
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings

from engine import Experiment, simulate
from engine.model.l2 import GONE, Taken, dram_bytes
from engine.model.l2_range import HALF, is_wide
from engine.model.launch import launch
from engine.problem.problem import Mask, Problem
from engine.recordings.counters import recorded_counters
from engine.recordings.file import COUNTED_BEFORE, JUDGES, recording_of, recordings
from engine.recordings.rows import experiment_of
from engine.schedule.step import Tensor
from tests.engine.strategies import experiments
from tests.engine.test_l2 import on_tiny, tile_by_tile

# (algorithm, query block, key block, head dim, causal): (heads, KV heads, tokens, MB that DRAM delivered),
# all 81 calls of a scan around L2's edge, counted on an H200 on 23 November 2026
SCAN = {
    ("flash3", None, None, 64, False): [
        (1, 1, 98340, 61.9),
        (2, 2, 98340, 141.1),
        (4, 4, 98340, 299.4),
        (1, 1, 101400, 72.0),
        (2, 2, 101400, 145.5),
        (4, 4, 101400, 276.1),
        (1, 1, 76224, 29.5),
        (2, 2, 76224, 77.0),
        (4, 4, 76224, 165.1),
        (1, 1, 85000, 40.2),
        (2, 2, 85000, 110.6),
        (4, 4, 85000, 230.8),
        (1, 1, 120000, 141.0),
        (2, 2, 120000, 311.4),
        (4, 4, 120000, 604.1),
        (1, 1, 140000, 227.5),
        (2, 2, 140000, 474.5),
        (4, 4, 140000, 1062.7),
    ],
    ("flash3", None, None, 64, True): [
        (1, 1, 98340, 38.3),
        (2, 2, 98340, 75.9),
        (4, 4, 98340, 152.5),
        (1, 1, 101400, 39.3),
        (2, 2, 101400, 78.7),
        (4, 4, 101400, 157.7),
        (1, 1, 76224, 29.4),
        (2, 2, 76224, 58.6),
        (4, 4, 76224, 117.4),
    ],
    ("flash3", None, None, 128, False): [
        (1, 1, 36000, 27.8),
        (2, 2, 36000, 69.4),
        (1, 1, 42000, 40.5),
        (2, 2, 42000, 106.0),
        (1, 1, 49170, 58.4),
        (2, 2, 49170, 145.4),
        (1, 1, 55000, 94.4),
        (2, 2, 55000, 210.7),
        (1, 1, 60000, 122.1),
        (2, 2, 60000, 268.9),
        (1, 1, 70000, 182.5),
        (2, 2, 70000, 393.0),
        (4, 4, 36000, 151.7),
        (4, 4, 49170, 313.1),
        (1, 1, 131072, 570.6),
        (1, 1, 200000, 1493.4),
        (1, 1, 262144, 4705.6),
        (1, 1, 393216, 14190.1),
        (16, 4, 56000, 1242.0),
    ],
    ("flash3", None, None, 128, True): [
        (1, 1, 70000, 64.5),
        (1, 1, 131072, 286.3),
        (1, 1, 262144, 1129.8),
        (16, 4, 44000, 306.7),
    ],
    ("flash3", None, None, 256, False): [
        (1, 1, 18000, 28.6),
        (4, 4, 18000, 170.1),
        (1, 1, 24000, 52.6),
        (4, 4, 24000, 260.7),
        (1, 1, 30000, 76.1),
        (4, 4, 30000, 400.8),
    ],
    ("flash3", None, None, 256, True): [(4, 4, 15090, 93.3), (4, 4, 20000, 123.8), (4, 4, 27000, 167.0)],
    ("flash2", 128, 64, 128, False): [
        (8, 2, 36000, 168.1),
        (8, 2, 40000, 192.9),
        (8, 2, 44000, 294.1),
        (8, 2, 49152, 431.0),
        (1, 1, 40000, 31.9),
        (2, 2, 40000, 95.8),
        (4, 4, 40000, 213.7),
        (1, 1, 50000, 61.1),
        (2, 2, 50000, 161.8),
        (4, 4, 50000, 358.9),
    ],
    ("flash2", 128, 64, 64, False): [
        (1, 1, 81287, 31.9),
        (2, 2, 81287, 83.6),
        (1, 1, 100000, 54.1),
        (2, 2, 100000, 163.8),
        (1, 1, 131072, 153.6),
        (2, 2, 131072, 435.2),
    ],
    ("flash2", 128, 32, 64, False): [(4, 4, 81287, 192.1), (4, 4, 70000, 131.9)],
    ("flash2", 64, 64, 64, False): [(1, 1, 90000, 37.1), (1, 1, 131072, 183.6)],
    ("flash2", 128, 64, 128, True): [(2, 2, 40000, 63.1), (2, 2, 56000, 119.1)],
}


def scanned() -> list[tuple[Experiment, float]]:
    """Every call of the scan, and the bytes that DRAM delivered."""
    return [
        (
            experiment_of(
                Problem(1, heads, kv_heads, seq, seq, head_dim, "float16", Mask(causal)),
                *(algorithm, block_q, block_kv, "h200"),
            ),
            1e6 * read,
        )
        for (algorithm, block_q, block_kv, head_dim, causal), calls in SCAN.items()
        for heads, kv_heads, seq, read in calls
    ]


def recorded(kept) -> list[tuple[Experiment, float]]:
    """Every recorded call, and the bytes that DRAM delivered."""
    return [(one.experiment, one.dram_read) for each in kept for one in recorded_counters(each)]


CALLS = {
    "recorded": lambda: recorded([recording_of("h200")]),
    "judges": lambda: recorded(each for each in recordings(JUDGES) if "H200" in each.device.gpu),
}
CALLS |= {"before": lambda: recorded(recordings(COUNTED_BEFORE)), "scanned": scanned}
# calls near the edge, share of them within, median width; found, and rounded away from what is wanted
FOUND = {
    "recorded": (29, 0.89, 0.24),
    "before": (15, 0.87, 0.3),
    "judges": (27, 0.92, 0.29),
    "scanned": (63, 0.93, 0.41),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_dram_delivered_lies_in_the_range_of_most_calls_near_the_edge(name):
    """And where no range is shown the modelled number itself is within 8.2%."""
    widths, within, missed = [], [], []
    for experiment, read in CALLS[name]():
        simulation = simulate(experiment)
        code = experiment.record.code + simulation.put_aside_again
        low, high = simulation.dram_range
        if is_wide(low, high):
            widths.append(high.total_read / low.total_read - 1)
            within.append(low.total_read + code <= read <= high.total_read + code)
        else:
            missed.append(abs((simulation.traffic.dram.total_read + code) / read - 1))
    least, share, width = FOUND[name]
    assert len(within) >= least
    assert np.mean(within) >= share
    assert 0.1 < median(widths) < width
    assert max(missed) < 0.082


def beyond(experiment: Experiment, read: float) -> int | None:
    """Whether a reading asks for a smaller share than HALF has (-1) or a larger (1); None off the edge."""
    run, moved = launch(experiment), simulate(experiment).traffic
    if moved.dram.total_read < 1.001 * moved.compulsory.total_read:
        return None
    most, least = (
        dram_bytes(run, moved.compulsory, moved.requested, Taken(half)).total_read + experiment.record.code
        for half in HALF
    )
    return None if most < 1.05 * least else int(read < least) - int(read > most)


def test_nine_of_ten_readings_near_the_edge_leave_the_shares_open_that_are_varied():
    """None of them is of a call drawn by lot; about as many lie beyond the one end as beyond the other."""
    calls = recorded((recording_of("h200"), *recordings(COUNTED_BEFORE))) + scanned()
    found = [side for one, read in calls if (side := beyond(one, read)) is not None]
    assert len(found) > 90
    assert found.count(0) / len(found) == pytest.approx(0.9, abs=0.03)
    assert all(0.015 < found.count(side) / len(found) < 0.08 for side in (-1, 1))
    assert HALF[0] < GONE < HALF[1]


@given(experiments())
@settings(max_examples=60, deadline=None)
def test_the_modelled_bytes_are_within_and_both_ends_within_what_can_be(experiment):
    simulation = simulate(experiment)
    moved, (low, high) = simulation.traffic, simulation.dram_range
    for kind in ("total_read", "total_written"):
        ends = [getattr(each, kind) for each in (moved.compulsory, low, moved.dram, high, moved.requested)]
        assert ends == sorted(ends)


@pytest.mark.parametrize(
    "values",
    [
        {"heads": 16, "seq": 4096},
        {"heads": 4, "seq": 2**20, "window": 1024},
        {"algorithm": "flash3", "heads": 1, "seq": 131072, "head_dim": 128, "hardware": "h200"},
        {"algorithm": "split_kv", "heads": 32, "kv_heads": 8, "seq": 1, "seq_kv": 131072},
    ],
    ids=["all-fits", "a-window-fits", "nothing-is-left", "read-once"],
)
def test_far_from_the_edge_there_is_no_range(values):
    simulation = simulate(Experiment.of(**values))
    low, high = simulation.dram_range
    assert not is_wide(low, high)
    assert high.total < 1.001 * low.total


@pytest.mark.parametrize("seq", [200_000, 262_144, 393_216])
def test_over_long_passes_sms_that_lose_step_are_in_the_range(seq):
    """Of one head DRAM delivers up to 2.9 times what it would if all SMs read the same keys at once."""
    simulation = simulate(Experiment.of(algorithm="flash3", heads=1, seq=seq, head_dim=128, hardware="h200"))
    low, high = (each.total_read for each in simulation.dram_range)
    ((_, _, _, read),) = [call for call in SCAN["flash3", None, None, 128, False] if call[2] == seq]
    assert low < 1e6 * read < high < 2.2e6 * read


@pytest.mark.parametrize("mask", [{}, {"causal": True}], ids=["none", "causal"])
@pytest.mark.parametrize("seq", [290, 320])
def test_the_ends_are_those_of_the_twin_with_the_shares_at_both_ends(seq, mask):
    shape = {"heads": 2, "seq": seq, "head_dim": 64, "block_q": 32, "block_kv": 16, **mask}
    with patch("engine.model.l2.MOST_WAVES", 100):
        low, high = on_tiny(lambda one: simulate.__wrapped__(one).dram_range, **shape)
    ends = []
    for half in (*HALF, GONE):
        with patch("tests.engine.test_l2.GONE", half):
            ends.append(on_tiny(tile_by_tile, **shape))
    found = [each.read[Tensor.K] + each.read[Tensor.V] for each in (high, low)]
    assert found == pytest.approx(ends[:2], rel=1e-3)
    assert ends[1] < 0.97 * ends[0]


def test_a_range_is_worked_out_when_it_is_asked_for():
    with patch("engine.model.simulation.dram_range") as worked_out:
        simulation = simulate.__wrapped__(Experiment.of(heads=4, seq=40_000, hardware="h200"))
        worked_out.assert_not_called()
        assert simulation.dram_range is worked_out.return_value
