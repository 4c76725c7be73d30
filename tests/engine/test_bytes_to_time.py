"""The bridge from bytes to time: its ends are the model's, its steps the chip's own rates."""

from itertools import pairwise

import pytest

from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.studies.gains import bytes_less, places, reasons


@pytest.mark.parametrize("algorithm", ["flash1", "flash2", "flash3"])
@pytest.mark.parametrize("values", [{"seq": 512}, {"seq": 4096, "heads": 16, "batch": 4, "causal": True}])
def test_the_steps_join_and_end_at_the_modelled_time(algorithm, values):
    experiment = Experiment.of(algorithm=algorithm, head_dim=128, **values)
    standard, *steps = reasons(experiment)
    assert standard[2] == simulate(experiment.changed(algorithm="standard")).modelled.seconds
    assert all(one[2] == after[1] for one, after in pairwise(steps))
    assert all(start <= end for _, start, end in steps)
    assert steps[-1][2] == simulate(experiment).modelled.seconds


def test_bytes_alone_and_products_take_what_the_rates_of_the_chip_say():
    experiment = Experiment.of(seq=4096, heads=16, batch=4, head_dim=128, block_q=128, hardware="h200")
    (_, _, moved), (_, _, products), *_ = reasons(experiment)[1:]
    traffic = simulate(experiment).traffic.dram.total
    assert moved == pytest.approx(traffic / 4.8e12, rel=0.15)  # at the peak, of which reads reach 0.95
    flops = 4 * 64 * 4096**2 * 128
    assert flops / 990e12 < products < flops / 660e12  # between the peak and two thirds of it
    assert bytes_less(experiment) == pytest.approx(8.87e9 / traffic, rel=0.02)


def test_the_point_walks_from_the_memory_roof_to_below_the_roof_of_the_products():
    experiment = Experiment.of(seq=4096, heads=16, batch=4, head_dim=128, block_q=128, hardware="h200")
    intensities, (standard, alone, products, softmax, whole) = zip(*places(experiment), strict=True)
    flops = 4 * 64 * 4096**2 * 128
    assert intensities[0] == pytest.approx(flops / 8.87e9, rel=0.02)
    assert intensities[1] == pytest.approx(intensities[0] * bytes_less(experiment))
    assert standard < 4.8e12 * intensities[0]  # below what memory allows
    assert 0.89 * 4.8e12 < alone / intensities[1] < 4.8e12  # at it, beyond what the products reach
    assert alone > 990e12 > products > softmax > whole
    assert whole == pytest.approx(flops / simulate(experiment).modelled.seconds)
