"""The model against the recorded hardware counters of an H200, scenario by scenario.

The counters are read with empty caches before every kernel, so what `standard` would find in L2 from its
kernel before does not count: its DRAM bytes are held to only where S is too large to stay.
"""

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.experiment import COMPARED, Tiling
from engine.recording_file import recordings

MODELLED = (*COMPARED, "flash3")


def counted() -> list:
    """Every recorded forward call of an algorithm that the model schedules."""
    rows = [row for recording in recordings() for row in recording.counters]
    return [r for r in rows if r.provider in MODELLED and r.direction == "forward" and not r.skipped]


def simulated(row):
    """The simulation of a recorded call."""
    tiling = Tiling(row.block_q or 64, row.block_kv or 64)  # of no account to flash3, which has its own
    return simulate(Experiment(problem=row.problem, algorithm=row.provider, tiling=tiling))


def deviations(algorithm: str, modelled, counter: str) -> np.ndarray:
    """Modelled over counted, less one, for every scenario of an algorithm."""
    rows = [row for row in counted() if row.provider == algorithm]
    return np.array([modelled(simulated(row)) / row.total(counter) - 1 for row in rows])


def test_there_are_enough_scenarios_to_mean_something():
    assert len(counted()) >= 40


def test_flash2_asks_for_exactly_the_bytes_that_the_chip_counts():
    read = deviations("flash2", lambda simulation: simulation.traffic.requested.total_read, "tile_read")
    assert np.abs(read).max() < 2e-4


def test_flash3_asks_for_what_the_chip_counts():
    # its copies fetch whole blocks: rows past the end of a ragged one are asked for too
    read = deviations("flash3", lambda simulation: simulation.traffic.requested.total_read, "tile_read")
    assert np.abs(read).max() < 1e-3


def test_no_algorithm_asks_for_less_than_the_chip_counts():
    # some of the tiles' requests end in the L1 cache of the SM: the chip counts what goes past it
    for algorithm in COMPARED:
        read = deviations(algorithm, lambda simulation: simulation.traffic.requested.total_read, "tile_read")
        assert read.min() > -2e-4


@pytest.mark.parametrize(
    ("algorithm", "median", "worst"), [("flash1", 0.01, 0.02), ("flash2", 0.01, 0.25), ("flash3", 0.02, 0.25)]
)
def test_the_cache_model_says_what_dram_delivers(algorithm, median, worst):
    read = np.abs(deviations(algorithm, lambda simulation: simulation.traffic.dram.total_read, "dram_read"))
    assert np.median(read) < median
    assert read.max() < worst


def test_unfused_attention_reads_the_scores_from_dram_when_they_do_not_fit():
    for row in counted():
        simulation = simulated(row)
        scores = row.problem.batch * row.problem.heads * row.problem.seq_q * row.problem.seq_kv * 2
        if row.provider == "standard" and scores > 4 * simulation.experiment.gpu.l2_effective_bytes:
            assert simulation.traffic.dram.total_read == pytest.approx(row.total("dram_read"), rel=0.01)


@pytest.mark.parametrize(
    ("algorithm", "median"), [("standard", 0.15), ("flash1", 0.25), ("flash2", 0.10), ("flash3", 0.10)]
)
def test_the_modelled_time_is_near_the_recorded_one(algorithm, median):
    time = np.abs(deviations(algorithm, lambda simulation: simulation.modelled.seconds, "seconds"))
    assert np.median(time) < median
    assert time.max() < 0.5
