"""An H100, on whose recording nothing of the model was set: what the model says of it, and what it did."""

import numpy as np
import pytest

from engine.model.fitted import COUNTED, SWEPT, TIMED
from engine.recordings.counters import recorded_counters
from engine.recordings.file import recording_of
from engine.studies.model_errors import errors, held_rows

H100 = recording_of("h100")

# (rows, off in the median, at most): what is found, rounded up
TIMES = {
    ("standard", TIMED): (52, 0.03, 0.07),
    ("standard", SWEPT): (47, 0.058, 0.22),
    ("standard", COUNTED): (11, 0.021, 0.062),
    ("flash1", TIMED): (51, 0.046, 0.42),
    ("flash1", SWEPT): (50, 0.056, 0.22),
    ("flash1", COUNTED): (9, 0.043, 0.16),
    ("flash2", TIMED): (60, 0.039, 0.35),
    ("flash2", SWEPT): (50, 0.043, 0.38),
    ("flash2", COUNTED): (41, 0.032, 0.19),
    ("flash3", TIMED): (60, 0.035, 0.145),
    ("flash3", COUNTED): (66, 0.037, 0.135),
}
DRAM_READS = {
    "standard": (0.004, 0.006),
    "flash1": (0.08, 0.22),
    "flash2": (0.003, 0.17),
    "flash3": (0.012, 0.12),
}


def test_it_is_an_h100s_and_set_nothing():
    assert H100.device.gpu == "NVIDIA H100 80GB HBM3"
    assert not any(one.fitted for one in errors(H100))
    assert {one.experiment.hardware for one in held_rows(H100)} == {"h100"}


@pytest.mark.parametrize(("algorithm", "rows"), TIMES)
def test_modelled_times_are_as_near_as_on_the_gpu_that_set_them(algorithm, rows):
    count, median, most = TIMES[algorithm, rows]
    off = [one.off for one in held_rows(H100) if (one.experiment.algorithm, one.rows) == (algorithm, rows)]
    assert len(off) == count
    assert np.median(off) < median
    assert max(off) < most


@pytest.mark.parametrize("algorithm", DRAM_READS)
def test_dram_reads_are_as_near_with_an_l2_of_50_mb(algorithm):
    median, most = DRAM_READS[algorithm]
    calls = [one for one in recorded_counters(H100) if one.experiment.algorithm == algorithm]
    off = np.abs([one.modelled_dram_read / one.dram_read - 1 for one in calls])
    assert np.median(off) < median
    assert off.max() < most
