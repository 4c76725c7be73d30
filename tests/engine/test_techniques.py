"""Each technique switched off: which schedule remains, and that time and bytes follow from it."""

from itertools import pairwise

import pytest

from engine import Experiment, simulate
from engine.problem.problem import Tiling
from engine.recordings.file import recordings
from engine.schedule.step import Tensor
from engine.studies.techniques import (
    ALL,
    TECHNIQUES,
    kernels,
    recorded_kernels,
    sensible,
    variant,
)
from engine.studies.warp_groups import inside

SCENARIO = Experiment.of(seq=4096, head_dim=128)
BLOCKS = {"block_q": 128, "block_kv": 128}


def test_what_rests_on_a_missing_technique_has_nothing_to_work_on():
    assert sensible({"tiling", "online"}) == frozenset()
    assert sensible(ALL - {"online"}) == {"fusion", "queries", "tiling"}
    assert sensible(ALL - {"overlapped"}) == ALL - {"overlapped"}
    assert sensible({"nonsense"}) == frozenset()


@pytest.mark.parametrize("heads", [16, 256])
def test_no_technique_makes_those_before_it_slower(heads):
    """By 0.5%: specialised warps alone gain nothing in a launch of few tiles. Each compares what it names."""
    sets = [frozenset([*TECHNIQUES][:count]) for count in range(len(TECHNIQUES) + 1)]
    assert all(sensible(each) == each for each in sets)
    steps = [variant(Experiment.of(heads=heads), each) for each in sets]
    seconds = [step.seconds for step in steps if step.misfit is None]
    assert len(seconds) == len(steps) - 2  # without tiling whole rows of S fit no chip
    assert all(later < 1.005 * before for before, later in pairwise(seconds))
    assert seconds[-1] == min(seconds)
    assert [step.kernel for step in steps if step.kernel] == ["standard", "flash2", "flash3"]


def test_the_loops_order_is_what_sets_version_1_apart():
    """Counted: O, m and l pass by once a key block, and one block of threads takes a head."""
    first, second = (variant(SCENARIO, each).traffic.requested for each in (ALL - {"queries"}, ALL))
    visits = 4096 // 128
    assert first.written[Tensor.O] == visits * second.written[Tensor.O]
    assert first.read[Tensor.K] * visits == second.read[Tensor.K]


@pytest.mark.parametrize("one", [{"fusion", "tiling", "online"}, ALL])
def test_without_online_softmax_k_is_read_and_multiplied_twice(one):
    """With keys outside Q is read twice too."""
    two, one = (variant(SCENARIO, frozenset(each)).traffic for each in (one - {"online"}, one))
    assert two.requested.read[Tensor.K] == 2 * one.requested.read[Tensor.K]
    assert two.requested.read[Tensor.V] == one.requested.read[Tensor.V]
    assert two.flops == one.flops * 3 // 2


def test_dividing_at_every_visit_costs_two_instructions_a_number_of_o():
    """128 threads issue per clock; two warp groups in step take 1.4 times as long."""
    divided = frozenset({"fusion", "queries", "tiling", "online"})
    kept = divided | {"deferred"}
    long = SCENARIO.changed(seq=2**17, seq_kv=2**17)  # copies, start and end are of no account
    gained = variant(long, divided).seconds - variant(long, kept).seconds
    gpu, visits = long.gpu, long.problem.heads * (2**17 // 128) ** 2
    issued = 2 * 128 * 128 * visits / (128 * gpu.sms * gpu.running_clock)
    assert gained == pytest.approx((1 + 0.8 / 1.3**2.6) * issued, rel=0.02)


@pytest.mark.parametrize(("techniques", "algorithm"), kernels().items())
def test_where_a_kernel_exists_the_bytes_are_its_schedules(techniques, algorithm):
    blocks = {} if algorithm in ("flash3", "standard") else BLOCKS
    like = simulate(SCENARIO.changed(algorithm=algorithm, **blocks))
    found = variant(SCENARIO, techniques)
    assert found.kernel == algorithm
    assert found.traffic.requested == like.traffic.requested
    assert found.traffic.flops == like.traffic.flops
    if algorithm in ("flash3", "standard"):  # all techniques, and none
        assert found.seconds == like.modelled.seconds


def test_without_tiling_only_short_rows_fit_the_chip():
    long, short = (variant(SCENARIO.changed(seq=n, seq_kv=n), ALL - {"tiling"}) for n in (4096, 64))
    # 128 rows of 4,096 float32 are 2,048 KB, Q, K and V in two buffers each 192 KB
    assert long.seconds is None
    assert "2,240 KiB" in long.misfit
    assert "allows 227 KiB per block" in long.misfit
    assert short.misfit is None
    assert short.seconds > 0


@pytest.mark.parametrize("key", ["asynchronous", "specialised", "overlapped"])
def test_what_runs_at_the_same_time_moves_no_byte_and_saves_time(key):
    left, full = variant(SCENARIO, ALL - {key}), variant(SCENARIO, ALL)
    assert left.traffic == full.traffic
    assert left.seconds > full.seconds


def test_waiting_for_copies_costs_what_one_stage_cost_flash2():
    """Recorded: FlashAttention-2 with 1 stage, which copies nothing ahead, against its best."""
    recorded = []
    for row in (row for recording in recordings() for row in recording.sweep):
        if (row.algorithm, row.problem.head_dim, row.block_q, row.block_kv) == ("flash2", 64, 128, 128):
            recorded.append((row.stages, row.times.p50 if row.times else float("inf"), row.problem))
    waited = min(seconds for stages, seconds, _ in recorded if stages == 1)
    ahead = min(seconds for _, seconds, _ in recorded)
    problem = recorded[0][2]
    experiment = Experiment(problem=problem, asked=Tiling(128, 128))
    step = frozenset({"fusion", "queries", "tiling", "online", "deferred"})
    modelled = variant(experiment, step).seconds / variant(experiment, step | {"asynchronous"}).seconds
    assert modelled == pytest.approx(waited / ahead, rel=0.15)


def test_recorded_kernels_are_of_one_problem_near_the_scenario():
    (recording,) = recordings()[:1]
    rows = recorded_kernels(recording, Experiment.of(seq=5000, head_dim=128))
    assert [row.kernel for row in rows] == ["standard", "flash1", "flash2", "flash3"]
    assert {row.problem for row in rows} == {rows[0].problem}
    assert rows[0].problem.seq_kv == 4096
    assert not rows[0].problem.mask.causal


@pytest.mark.parametrize(
    ("values", "words"),
    [({"hardware": "b200"}, "Hopper"), ({"dtype": "float32"}, "float16"), ({"head_dim": 84}, "84")],
)
def test_what_the_kernel_does_not_serve_is_said(values, words):
    assert SCENARIO.changed(algorithm="flash3").unserved is None
    assert words in SCENARIO.changed(algorithm="flash3", **values).unserved


def test_the_whole_call_reaches_less_of_the_peak_than_its_loop():
    """FLOPs by hand: 4 N^2 d a head, 16 heads, over an H200's 989.4 TFLOP/s."""
    full = variant(SCENARIO, ALL)
    assert full.of_peak == pytest.approx(4 * 4096**2 * 128 * 16 / 989.4e12 / full.seconds)
    assert full.of_peak < inside(SCENARIO, full.pipeline).tensor_busy
    assert variant(SCENARIO, ALL - {"tiling"}).of_peak is None
