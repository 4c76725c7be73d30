"""Ring attention: every tile once, on the GPU that holds its queries, equal to float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Experiment
from engine.algorithms import ALGORITHMS, offered, ring
from engine.algorithms.ring import Order, meetings, order_of
from engine.model.launch import schedule_of
from engine.problem.inputs import make_inputs
from engine.trace.execute import execute
from tests.engine.strategies import experiments
from tests.engine.test_execute import check

GPUS = st.sampled_from([1, 2, 3, 5])


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
