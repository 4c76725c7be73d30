"""Inside a block of threads, and each technique switched off: what remains, and how long it takes."""

from itertools import pairwise, product

import pytest

from engine import Experiment, simulate
from engine.algorithms import Pipeline
from engine.model.launch import launch
from engine.model.rates import Rates
from engine.model.visit import arithmetic_seconds, visit_seconds, with_copies
from engine.problem.problem import Tiling
from engine.recordings.file import recordings
from engine.schedule.step import Tensor
from engine.studies.techniques import ALL, TECHNIQUES, kernels, recorded_kernels, sensible, variant
from engine.studies.warp_groups import PV, QK, SOFTMAX, STORE, inside

PIPELINES = [
    Pipeline(asynchronous, specialised and asynchronous, overlapped)
    for asynchronous, specialised, overlapped in product((True, False), repeat=3)
]
SCENARIOS = {
    "d 64": {"head_dim": 64, "seq": 4096},
    "d 128": {"head_dim": 128, "seq": 4096},
    "d 256": {"head_dim": 256, "seq": 4096},
    "one key block": {"head_dim": 64, "seq": 100},
    "one key": {"seq": 1, "head_dim": 128},
}
NEAR = 1e-12
SCENARIO = Experiment.of(seq=4096, head_dim=128)
BLOCKS = {"block_q": 128, "block_kv": 128}


@pytest.fixture(params=PIPELINES, ids=str)
def pipeline(request) -> Pipeline:
    return request.param


def marks(block, *operations, lane=None):
    """Those of the operations in a lane, or in all."""
    found = [m for m in block.marks if m.operation in operations and lane in (None, m.lane)]
    return sorted(found, key=lambda mark: mark.start)


@pytest.mark.parametrize("values", SCENARIOS.values(), ids=SCENARIOS)
def test_a_warp_group_needs_k_for_its_scores_and_v_and_p_for_its_output(values, pipeline):
    """From one visit's scores to the next one's, once copies are under way: never longer than is said.

    Where groups take turns a unit works for one at a time, and a group on one unit.
    """
    block = inside(Experiment.of(algorithm="flash3", **values), pipeline)
    groups = range(1, len(block.lanes))
    if pipeline.overlapped:
        own = [marks(block, QK, PV, SOFTMAX, lane=group) for group in groups]
        for row in (marks(block, QK, PV), marks(block, SOFTMAX), *own):
            assert all(before.end <= after.start + NEAR for before, after in pairwise(row))
    every = {group: [marks(block, each, lane=group) for each in (QK, SOFTMAX, PV)] for group in groups}
    for own in every.values():
        for row in zip(*own, strict=True):
            assert len({mark.key_block for mark in row}) == 1
            assert all(before.end <= after.start + NEAR for before, after in pairwise(row))
    for name, at in (("K", 0), ("V", 2)):
        copies = marks(block, name, lane=0)
        for copy, user in zip(copies, every[1][at], strict=True):
            assert copy.key_block == user.key_block
            assert copy.end <= user.start + NEAR
        used = zip(*(own[at] for own in every.values()), strict=True)
        done = (max(mark.end for mark in row) for row in used)
        assert all(copy.start + NEAR >= freed for copy, freed in zip(copies[2:], done, strict=False))
    starts = [mark.start for mark in every[1][0]][: block.visits]
    drawn = [later - before for before, later in pairwise(starts)]
    assert all(gap <= block.period * (1 + 1e-9) for gap in drawn)
    if not pipeline.asynchronous and len(drawn) > 1:
        assert block.period == pytest.approx(drawn[-1])
    assert block.tensor_busy <= 1


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_visits_follow_each_other_as_the_model_of_the_whole_launch_says(head_dim, pipeline):
    experiment = Experiment.of(algorithm="flash3", head_dim=head_dim, seq=4096)
    block = inside(experiment, pipeline)
    run = launch(experiment)
    rates = Rates.of(experiment.gpu, "float16")
    products, softmax, copies = visit_seconds(run, run.schedule.phases[0], rates)
    whole = with_copies(pipeline, arithmetic_seconds(pipeline, products, softmax), copies)
    starts = [mark.start for mark in marks(block, QK, lane=1)]
    # where all wait for copies, the last group's softmax has no other group's products to run under; at d 256
    # the round trips that copies are drawn with hold up products that follow each other
    late = 0.01 if pipeline.asynchronous else 0.2
    assert block.period == pytest.approx(whole, rel=max(late, 0.07 * (head_dim == 256)))
    assert block.period >= whole * (1 - 1e-9)
    assert starts[3] - starts[2] == pytest.approx(whole, rel=0.07 if pipeline.asynchronous else 0.2)


def test_softmax_runs_under_another_groups_products_only_with_overlap():
    experiment = Experiment.of(algorithm="flash3", head_dim=128, seq=4096)

    def together(pipeline):
        block = inside(experiment, pipeline)
        own, others = marks(block, SOFTMAX, lane=1), marks(block, QK, PV, lane=2)
        return sum(max(0.0, min(a.end, b.end) - max(a.start, b.start)) for a in own for b in others)

    assert together(Pipeline(True, True, True)) > 0.5e-6
    assert together(Pipeline(True, True, False)) == pytest.approx(0, abs=NEAR)


def test_a_block_that_ends_with_its_tile_waits_for_the_next_ones_first_copies():
    experiment = Experiment.of(algorithm="flash3", head_dim=128, seq=4096)
    stays, ends = (inside(experiment, Pipeline(True, specialised, True)) for specialised in (True, False))
    idle = [block.switch - marks(block, STORE, lane=1)[0].end for block in (stays, ends)]
    assert idle[0] == pytest.approx(0, abs=NEAR)
    assert idle[1] > 1e-6


def test_a_short_tile_is_drawn_whole_and_a_long_one_says_what_is_left_out():
    short = inside(Experiment.of(algorithm="flash3", seq=300, head_dim=64), Pipeline(True, True, True))
    assert short.visits == short.visits_in_all == 3
    long = inside(Experiment.of(algorithm="flash3", seq=4096, head_dim=64), Pipeline(True, True, True))
    assert long.visits < long.visits_in_all == 32
    assert len(marks(long, STORE, lane=1)) == 2


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


def test_what_the_kernel_does_not_serve_is_said():
    assert SCENARIO.changed(algorithm="flash3").unserved is None
    for name, value, word in (("hardware", "b200", "Hopper"), ("dtype", "float32", "float16")):
        assert word in SCENARIO.changed(algorithm="flash3", **{name: value}).unserved
    assert "84" in SCENARIO.changed(algorithm="flash3", head_dim=84).unserved


def test_the_whole_call_reaches_less_of_the_peak_than_its_loop():
    """FLOPs by hand: 4 N^2 d a head, 16 heads, over an H200's 989.4 TFLOP/s."""
    full = variant(SCENARIO, ALL)
    assert full.of_peak == pytest.approx(4 * 4096**2 * 128 * 16 / 989.4e12 / full.seconds)
    assert full.of_peak < inside(SCENARIO, full.pipeline).tensor_busy
    assert variant(SCENARIO, ALL - {"tiling"}).of_peak is None
