"""The bridge from bytes to time: its ends are the model's, its steps the chip's own rates."""

from itertools import pairwise

import pytest

from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.studies.bytes_to_time import bytes_less, places, reasons


@pytest.mark.parametrize("algorithm", ["flash1", "flash2", "flash3"])
@pytest.mark.parametrize("values", [{"seq": 512}, {"seq": 4096, "heads": 16, "batch": 4, "causal": True}])
def test_the_steps_join_and_end_at_the_modelled_time(algorithm, values):
    experiment = Experiment.of(algorithm=algorithm, head_dim=128, **values)
    standard, *steps = reasons(experiment)
    assert standard.end == simulate(experiment.changed(algorithm="standard")).modelled.seconds
    assert all(one.end == after.start for one, after in pairwise(steps))
    assert all(one.start <= one.end for one in steps)
    assert steps[-1].end == simulate(experiment).modelled.seconds


def test_bytes_alone_and_products_take_what_the_rates_of_the_chip_say():
    experiment = Experiment.of(seq=4096, heads=16, batch=4, head_dim=128, block_q=128, hardware="h200")
    _, moved, products, *_ = reasons(experiment)
    traffic = simulate(experiment).traffic.dram.total
    assert moved.end == pytest.approx(traffic / 4.8e12, rel=0.15)  # at the peak, of which reads reach 0.95
    flops = 4 * 64 * 4096**2 * 128
    assert flops / 990e12 < products.end < flops / 660e12  # between the peak and two thirds of it
    assert bytes_less(experiment) == pytest.approx(8.87e9 / traffic, rel=0.02)


def test_the_point_walks_from_the_memory_roof_to_below_the_roof_of_the_products():
    experiment = Experiment.of(seq=4096, heads=16, batch=4, head_dim=128, block_q=128, hardware="h200")
    standard, alone, products, softmax, whole = places(experiment)
    flops = 4 * 64 * 4096**2 * 128
    assert standard.intensity == pytest.approx(flops / 8.87e9, rel=0.02)
    assert alone.intensity == pytest.approx(standard.intensity * bytes_less(experiment))
    assert standard.rate < 4.8e12 * standard.intensity  # below what memory allows
    assert 0.89 * 4.8e12 < alone.rate / alone.intensity < 4.8e12  # at it, beyond what the products reach
    assert alone.rate > 990e12 > products.rate > softmax.rate > whole.rate
    assert whole.rate == pytest.approx(flops / simulate(experiment).modelled.seconds)
