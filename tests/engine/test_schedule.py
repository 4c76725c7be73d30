"""Schedules against a slow twin that walks the loops, totals against sums over every step, traits; rings."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Experiment, simulate
from engine.algorithms import ALGORITHMS, offered, ring
from engine.algorithms.ring import Order, meetings, order_of
from engine.model import block_seconds, l2
from engine.model.launch import launch, schedule_of
from engine.model.traffic import counts
from engine.problem import bounds
from engine.problem.inputs import make_inputs
from engine.schedule.step import MATRIX_PRODUCTS, Operation, Tensor, block_bytes, matrix_flops
from engine.schedule.traits import Leaves, Rows, traits
from engine.studies.drawable import watchable
from engine.trace.execute import execute
from tests.engine.strategies import experiments, on_one_gpu
from tests.engine.test_execute import check

SPLITS = st.sampled_from([1, 2, 3, 7, 40])
HARD = [
    {"algorithm": "split_kv", "seq": 2**20, "splits": 1024, "block_q": 16},
    {"algorithm": "split_kv", "seq": 2**20, "splits": 1024, "block_q": 16, "heads": 1024, "kv_heads": 1},
    {"algorithm": "flash3", "seq": 2**20, "seq_kv": 1, "causal": True, "batch": 4096},
    {"algorithm": "ring", "seq": 2**20, "splits": 1024, "block_q": 16, "block_kv": 16, "causal": True},
]
GPUS = st.sampled_from([1, 2, 3, 5])


def walked(schedule) -> list[tuple]:
    """Every step as (phase, operation, tensor, query block, key block, blocks moved), loop by loop."""
    steps = []
    for index, phase in enumerate(schedule.phases):

        def add(group, outer, inner, index=index, phase=phase):
            query, key = (outer, inner) if phase.outer == "query" else (inner, outer)
            steps.extend((index, step.operation, step.tensor, query, key, step.times) for step in group)

        for program in range(len(phase.visits)):
            outer = program // phase.splits
            add(phase.before, outer, -1)
            inners = range(phase.first[program], phase.stop[program])
            for inner in reversed(inners) if phase.reverse else inners:
                add(phase.each, outer, inner)
            add(phase.after, outer, -1)
    return steps


def rows_of(rows: np.ndarray, block: int) -> int:
    return int(rows.sum() if block < 0 else rows[block])


@given(on_one_gpu())
def test_columns_are_the_loops_walked_step_by_step_and_add_up_to_the_totals(experiment):
    schedule, problem = schedule_of(experiment), experiment.problem
    columns, steps, totals = schedule.columns, walked(schedule), counts(schedule)
    names = (columns.phase, columns.operation, columns.tensor, columns.query_block, columns.key_block)
    assert list(zip(*(column.tolist() for column in names), strict=True)) == [step[:-1] for step in steps]
    assert schedule.steps == len(columns)
    for at, (_, operation, tensor, query, key, times) in enumerate(steps):
        rows, keys = rows_of(schedule.query_rows, query), rows_of(schedule.key_rows, key)
        box = experiment.algorithm in ("flash3", "flash4") and operation == Operation.LOAD  # whole, by TMA
        asked = (schedule.tiling.block_q, schedule.tiling.block_kv) if box else (rows, keys)
        moved = times * block_bytes(problem, tensor).of(*asked) if tensor != Tensor.NONE else 0
        product = operation in MATRIX_PRODUCTS
        assert columns.read_bytes[at] == (moved if operation == Operation.LOAD else 0)
        assert columns.written_bytes[at] == (moved if operation == Operation.STORE else 0)
        assert columns.flops[at] == (matrix_flops(problem, operation).of(rows, keys) if product else 0)
    assert totals.requested == columns.moved()
    assert totals.flops == int(columns.flops.sum(dtype=np.int64))


def test_a_step_larger_than_two_gigabytes_does_not_overflow():
    experiment = Experiment.of(
        algorithm="standard", heads=1, seq=1024, seq_kv=2**20, block_q=1024, block_kv=1024, dtype="float32"
    )
    schedule = schedule_of(experiment)
    assert schedule.columns.read_bytes.max() == 1024 * 2**20 * 4
    assert counts(schedule).requested == schedule.columns.moved()


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2"])
def test_a_million_tokens_are_counted_without_unrolling(algorithm):
    experiment = Experiment.of(algorithm=algorithm, heads=1, seq=2**20, block_q=64, block_kv=64)
    schedule = schedule_of(experiment)
    assert counts(schedule).tiles_visited == 2**28
    assert "columns" not in vars(schedule)


def forget():
    launch.cache_clear()
    simulate.cache_clear()


@settings(max_examples=25)
@given(experiments(algorithms=("split_kv", "ring"), most_heads=3), SPLITS, st.integers(1, 20))
def test_runs_of_alike_blocks_sum_to_what_every_block_does(experiment, splits, group):
    """As a link of 67 million programs is summed, on problems small enough to list all of them."""
    problem = experiment.problem
    experiment = experiment.changed(splits=splits, heads=problem.kv_heads * group)
    forget()
    listed = simulate(experiment)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for module in (bounds, l2, block_seconds):
                patch.setattr(module, "MOST_LISTED", 0)
            forget()
            summed = simulate(experiment)
            nests = list(zip(summed.schedule.phases, listed.schedule.phases, strict=True))
            assert summed.traffic == listed.traffic
            assert summed.footprint == listed.footprint
            assert summed.modelled.seconds == pytest.approx(listed.modelled.seconds, rel=1e-2)
    finally:
        forget()
    for mine, theirs in nests:
        assert mine.programs.count == len(theirs.visits)
        assert (mine.first == theirs.first).all()
        assert (mine.stop == theirs.stop).all()
        assert mine.programs.filled == (theirs.visits > 0).sum()
        assert mine.programs.all_visits == theirs.visits.sum()


@pytest.mark.parametrize("values", HARD, ids=lambda values: values["algorithm"])
def test_a_link_that_asks_for_millions_of_programs_takes_little_memory(values):
    forget()
    tracemalloc.start()
    try:
        simulate(Experiment.of(**values))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 180e6
    assert launch.bytes < 16e6
    assert launch(watchable(Experiment.of(**values), 300)).blocks <= 300  # what is watched of it is found


def test_the_chunks_that_a_query_block_reaches_are_counted_where_chunks_hold_no_block():
    share = ring.ChunkShare(ring.Order(5, True), 3, 7)  # 10 chunks, 7 key blocks
    for first in range(7):
        for stop in range(first + 1, 8):
            begin, end = share.of(first, stop, np.full(10, 2), np.arange(10))
            assert share.filled(first, stop) == (end > begin).sum()
            assert (end - begin).sum() == stop - first


def like(algorithm: str, **values):
    return traits(schedule_of(Experiment.of(algorithm=algorithm, **{"seq": 256} | values)))


def test_what_an_algorithm_is_like_is_found_in_its_schedule():
    standard, flash1, flash2_, backward_ = map(like, ("standard", "flash1", "flash2", "backward"))
    assert [each.rows for each in (standard, flash1, flash2_, backward_)] == [
        *(Rows.WHOLE, Rows.ONLINE, Rows.ONLINE, Rows.GRADIENTS)
    ]
    assert [each.rewrites for each in (standard, flash1, flash2_, backward_)] == [False, True, False, False]
    assert [phase.leaves for phase in standard.phases] == [Leaves.SCORES, Leaves.WEIGHTS, Leaves.ALL]
    assert [phase.leaves for phase in backward_.phases] == [Leaves.NOTHING, Leaves.PART, Leaves.ALL]
    assert [phase.gathers for phase in standard.phases] == [False, False, True]
    assert not any(phase.carries for phase in (*standard.phases, *flash1.phases))
    assert flash2_.phases[0].carries
    assert standard.phases[2].loads == (Tensor.P, Tensor.V)
    hidden = [like(name, causal=True).visits_hidden for name in ("standard", "flash1", "flash2", "backward")]
    assert hidden == [True, False, False, False]  # unfused attention alone computes what the mask hides
    assert not standard.visits_hidden  # there is nothing hidden


def test_only_some_windows_have_key_blocks_that_begin_where_query_blocks_stand():
    long = {"algorithm": "flash3", "head_dim": 64, "seq": 2048}
    assert like(**long, window=1024).copies_elsewhere
    assert not any(like(**long, window=window).copies_elsewhere for window in (None, 1088, (1023, 8)))
    assert not like("flash2", seq=2048, window=1024).copies_elsewhere


def ring_of(tokens: int, causal: bool, **more) -> Experiment:
    """A small ring whose chunks are whole blocks."""
    return Experiment.of(
        algorithm="ring", seq=tokens, heads=1, head_dim=16, block_q=16, block_kv=16, causal=causal, **more
    )


@settings(max_examples=12)
@given(experiments(algorithms=("ring",)), GPUS)
def test_the_merged_result_is_float64s(experiment, gpus):
    tensors = [array[0] for array in make_inputs(experiment.problem, 3)]
    found = execute(experiment.changed(splits=gpus), *tensors)
    check(found.out, found.lse, experiment.problem, tensors)


@settings(max_examples=12)
@given(experiments(algorithms=("ring",)), GPUS)
def test_every_visible_tile_is_visited_once(experiment, gpus):
    schedule = schedule_of(experiment.changed(splits=gpus))
    phase, order = schedule.phases[0], order_of(experiment.problem, schedule.tiling)
    visits = 1 if gpus == 1 else order.chunks
    found = np.zeros((len(schedule.query_rows), len(schedule.key_rows)), int)
    for program, (first, stop) in enumerate(zip(phase.first, phase.stop, strict=True)):
        found[program // visits, first:stop] += 1
    bounds, keys = schedule.bounds, np.arange(found.shape[1])
    assert (found == ((keys >= bounds.first[:, None]) & (keys < bounds.stop[:, None]))).all()


@pytest.mark.parametrize("zigzag", [True, False])
def test_gpus_meet_each_pair_of_chunks_once_and_zigzag_shares_the_work(zigzag):
    order = Order(4, zigzag)
    found = list(meetings(order, ring_of(64, causal=True).problem))
    chunks = order.chunks
    assert {(each.queries, each.keys) for each in found} == {
        (i, j) for i in range(chunks) for j in range(i + 1)
    }
    assert len(found) == chunks * (chunks + 1) // 2
    for each in found:
        assert each.queries in order.of(each.gpu)
        assert each.keys in order.of(each.owner)
    work = [sum(1 if each.whole else 0.5 for each in found if each.gpu == gpu) for gpu in range(4)]
    assert work == ([8.0] * 4 if zigzag else [0.5, 1.5, 2.5, 3.5])


def test_it_is_of_several_gpus_and_not_offered_beside_algorithms_of_one():
    assert "ring" not in offered()
    assert [key for key, record in ALGORITHMS.items() if record.several_gpus] == [ring.ALGORITHM.key]
