"""What a card's power limit leaves in long calls: by hand, and beside one GPU's recorded rows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.experiment import Experiment
from engine.model.cluster.kernel import kernel_seconds, one_gpu_seconds
from engine.model.cluster.lanes import lanes
from engine.model.cluster.seconds import modelled
from engine.model.cluster.spread import Spread
from engine.model.rates import sustained, unsustained
from engine.model.simulation import simulate
from engine.problem.problem import Mask, Problem
from engine.recordings.file import CLUSTERS

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


@pytest.mark.parametrize("causal", [True, False])
def test_one_gpus_recorded_calls_take_what_is_modelled(causal):
    """Forward, 16 heads, 16,384 to 131,072 tokens: 1.6 to 221 ms; with no limit the last is 13% off."""
    rows = json.loads((CLUSTERS / "h200x4.json").read_text())["cluster"]
    recorded = {
        row["problem"]["seq_q"]: row["times"]["median"]
        for row in rows
        if (row["provider"], row["direction"]) == ("one", "forward")
        if row["problem"]["kv_heads"] == 16 and row["problem"]["mask"]["causal"] == causal
    }
    for tokens in (2**power for power in range(14, 18)):
        asked = {"algorithm": "flash3", "seq": tokens, "heads": 16, "head_dim": 128, "hardware": "h200"}
        found = simulate(Experiment.of(**asked, causal=causal, dtype="float16").in_own_tiling()).modelled
        assert found.limited
        assert found.seconds == pytest.approx(recorded[tokens], rel=0.05), tokens


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
    assert max(map(lanes(spread).busy, range(4))) == pytest.approx(modelled(spread).computing, rel=1e-9)
