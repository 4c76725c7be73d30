"""Inside a block of threads: no unit does two things at once, nothing starts before what it needs."""

from itertools import pairwise, product

import pytest

from engine import Experiment
from engine.algorithms import Pipeline
from engine.model.launch import launch
from engine.model.rates import Rates
from engine.model.visit import arithmetic_seconds, visit_seconds, with_copies
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


@pytest.fixture(params=PIPELINES, ids=str)
def pipeline(request) -> Pipeline:
    return request.param


@pytest.fixture(params=SCENARIOS.values(), ids=SCENARIOS)
def experiment(request) -> Experiment:
    return Experiment.of(algorithm="flash3", **request.param)


def marks(block, *operations, lane=None):
    """Those of the operations in a lane, or in all."""
    found = [m for m in block.marks if m.operation in operations and lane in (None, m.lane)]
    return sorted(found, key=lambda mark: mark.start)


@pytest.mark.parametrize("pipeline", [each for each in PIPELINES if each.overlapped], ids=str)
def test_a_unit_works_for_one_group_at_a_time_and_a_group_on_one_unit_when_they_take_turns(
    experiment, pipeline
):
    block = inside(experiment, pipeline)
    own = [marks(block, QK, PV, SOFTMAX, lane=group) for group in range(1, len(block.lanes))]
    for row in (marks(block, QK, PV), marks(block, SOFTMAX), *own):
        assert all(before.end <= after.start + NEAR for before, after in pairwise(row))


def test_a_warp_group_needs_k_for_its_scores_and_v_and_p_for_its_output_and_buffers_wait_for_all(
    experiment, pipeline
):
    """From one visit's scores to the next one's, once copies are under way: never longer than is said."""
    block = inside(experiment, pipeline)
    every = {
        group: [marks(block, each, lane=group) for each in (QK, SOFTMAX, PV)]
        for group in range(1, len(block.lanes))
    }
    for own in every.values():
        for row in zip(*own, strict=True):
            assert len({mark.key_block for mark in row}) == 1
            assert all(before.end <= after.start + NEAR for before, after in pairwise(row))
    for name, at in (("K", 0), ("V", 2)):
        copies = marks(block, name, lane=0)
        for copy, user in zip(copies, every[1][at], strict=True):
            assert copy.key_block == user.key_block
            assert copy.end <= user.start + NEAR
        done = (
            max(mark.end for mark in row) for row in zip(*(own[at] for own in every.values()), strict=True)
        )
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
