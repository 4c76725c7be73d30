"""What others published of their GPUs beside the model: rows with a source, whose median is near."""

import pytest

from engine import simulate
from engine.problem.hardware import GPUS
from engine.studies.published import median_of, medians, published


def test_published_rates_are_met_in_the_median():
    rows = published()
    assert len(rows) >= 20
    assert len(medians()) == 7
    assert 0.8 <= median_of() <= 1.25
    assert all(one.source.startswith(("https://", "FlashAttention-3, arXiv")) for one in rows)


@pytest.mark.parametrize("hardware", ["a100", "rtx4090", "rtx5090", "b200", "h100", "h200"])
def test_each_nvidia_gpu_by_itself_is_met_too(hardware):
    assert 0.8 <= median_of(hardware) <= 1.25


def test_a_row_is_flops_over_seconds_and_causal_ones_count_half():
    one = next(row for row in published() if row.experiment.hardware == "rtx4090")
    causal = next(row for row in published() if row.experiment == one.experiment.changed(causal=True))
    for row, share in ((one, 1), (causal, 2)):
        flops = 4 * 8 * 16 * 2048 * 2048 * 64 / share
        assert row.modelled == pytest.approx(flops / simulate(row.experiment).modelled.seconds)
        assert row.ratio == row.modelled / row.rate


def test_no_gpu_reaches_more_than_its_peak_but_where_that_was_published():
    """A T4 multiplies without tensor cores, a GeForce card's clock is above its data sheet's."""
    for key, gpu in GPUS.items():
        share = gpu.reached.matrix
        assert share <= 1.0 or key in ("rtx4090", "rtx5090")
    assert GPUS["t4"].reached.matrix * 65.1 < 8.1
