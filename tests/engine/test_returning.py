"""flash1, whose rows come from memory and go back at every visit: the model against calls in no recording."""

from statistics import median

import pytest

from engine import simulate
from engine.problem.hardware import GPUS
from tests.engine.readings import READ, experiment_of, for_each


def off(section: str, start: float) -> list[float]:
    """How much longer each call of a section is modelled to take than it took, as a share of that.

    start: seconds of the kernel's start that were not timed.
    """
    return [
        (simulate(experiment_of(values, algorithm="flash1")).modelled.profiled - start) * 1e6 / read - 1
        for values, read in READ[section]
    ]


def test_blocks_take_as_long_as_traced_few_or_many_and_of_every_size():
    """By how few or many heads share the chip, whether L1, L2 or DRAM has their rows: off either way."""
    found = off("flash1 traced", GPUS["h200"].reached.launch)
    assert median(map(abs, found)) < 0.026
    assert -0.12 < min(found) < max(found) < 0.085


def test_a_visit_waits_for_its_last_line_and_few_rows_for_their_own_instructions():
    """The shares that DRAM answers are 0 to 89% by counters, and modelled here: up to 2.6 times as many."""
    found = off("flash1 counted", 0.0)
    assert median(map(abs, found)) < 0.038
    assert -0.065 < min(found) < max(found) < 0.11


@for_each("flash1 in pairs")
def test_blocks_of_flash1_on_one_sm_wait_at_the_same_time(values, read):
    """Were each to wait for itself, these would take 1.4 to 1.8 times as long as counted."""
    found = simulate(experiment_of(values, algorithm="flash1"))
    assert found.launch.kernels[0].resident == 2
    assert found.modelled.seconds == pytest.approx(read * 1e-6, rel=0.15)
    assert found.modelled.busy["attention"]["L2"] < found.modelled.seconds
