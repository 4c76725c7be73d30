"""What a card's power limit leaves in long calls, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.cluster.kernel import kernel_seconds, one_gpu_seconds
from engine.model.cluster.lanes import COMPUTING, lanes
from engine.model.cluster.seconds import modelled
from engine.model.cluster.spread import Spread
from engine.model.rates import sustained, unsustained
from engine.problem.problem import Mask, Problem

SECONDS = st.floats(1e-6, 100)


@given(SECONDS, SECONDS)
def test_one_way_is_the_other_undone_and_more_work_takes_longer(one, other):
    assert unsustained(sustained(one)) == pytest.approx(one, rel=1e-9)
    assert sustained(unsustained(one)) == pytest.approx(one, rel=1e-9)
    assert sustained(min(one, other)) <= sustained(max(one, other))
    assert one <= sustained(one) <= one / 0.85 * (1 + 1e-12)


def test_after_30_ms_a_call_has_the_clock_that_is_left():
    assert [sustained(each) for each in (0.01, 0.03)] == [0.01, 0.03]
    assert sustained(0.03 + 0.85) == pytest.approx(1.03)


@pytest.mark.parametrize(("hardware", "dtype"), [("a100", "float16"), ("h200", "float32")])
def test_several_gpus_are_limited_where_one_is(hardware, dtype):
    """Neither is known to be: four share its work, and none takes less than a quarter."""
    problem = Problem(1, 16, 16, 2**17, 2**17, 128, dtype, Mask(causal=True))
    alone = kernel_seconds(problem, hardware, 2**17, 2**17, True)
    assert one_gpu_seconds(problem, hardware) == alone > 0.3
    assert modelled(Spread(problem, 4, hardware=hardware)).efficiency < 1.01


def test_the_lane_that_computes_most_is_as_long_as_its_calls():
    problem = Problem(1, 16, 16, 2**18, 2**18, 128, "float16", Mask(causal=True))
    spread = Spread(problem, 4)
    calls = [[] for _ in range(4)]
    for mark in lanes(spread).marks:
        if mark.kind == COMPUTING:
            calls[mark.gpu].append(mark.end - mark.start)
    assert max(map(sum, calls)) == pytest.approx(modelled(spread).computing, rel=1e-9)
