"""Ring attention: every tile once, on the GPU that holds its queries, equal to float64; bytes counted."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Experiment
from engine.algorithms import ALGORITHMS, offered, ring
from engine.algorithms.ring import Order, meetings, ring_schedule
from engine.problem.bounds import visible
from engine.problem.inputs import make_inputs
from engine.trace.ring import execute_ring
from tests.engine.strategies import exact_attention, experiments
from tests.engine.test_execute import check

ORDERS = st.builds(Order, st.sampled_from([1, 2, 3, 5]), st.booleans())


def ring_of(tokens: int, causal: bool, **more) -> Experiment:
    """A small ring whose chunks are whole blocks."""
    return Experiment.of(
        algorithm="ring", seq=tokens, heads=1, head_dim=16, block_q=16, block_kv=16, causal=causal, **more
    )


def run(experiment: Experiment, order: Order):
    """What its GPUs computed of random numbers, and the numbers."""
    q, k, v = (array[0] for array in make_inputs(experiment.problem, 3))
    return execute_ring(experiment, order, q, k, v), (q, k, v)


@settings(max_examples=12)
@given(experiments(algorithms=("ring",)), ORDERS)
def test_the_merged_result_is_float64s(experiment, order):
    found, tensors = run(experiment, order)
    check(found.trace.out, found.trace.lse, experiment.problem, tensors)


@settings(max_examples=12)
@given(experiments(algorithms=("ring",)), ORDERS)
def test_every_visible_tile_is_visited_once(experiment, order):
    schedule = ring_schedule(experiment.problem, experiment.tiling, order)
    phase, visits = schedule.phases[0], 1 if order.gpus == 1 else order.chunks
    found = np.zeros((len(schedule.query_rows), len(schedule.key_rows)), int)
    for program, (first, stop) in enumerate(zip(phase.first, phase.stop, strict=True)):
        found[program // visits, first:stop] += 1
    bounds, keys = schedule.bounds, np.arange(found.shape[1])
    assert (found == ((keys >= bounds.first[:, None]) & (keys < bounds.stop[:, None]))).all()


@pytest.mark.parametrize("gpus", [2, 4])
@pytest.mark.parametrize(("causal", "zigzag"), [(True, True), (True, False), (False, False)])
def test_bytes_counted_by_running_are_the_closed_form(gpus, causal, zigzag):
    """Plain and causal: GPU r fetches the r earlier blocks; zigzag: halves of these, wholes of the later."""
    experiment = ring_of(128, causal, dtype="float16")
    found, _ = run(experiment, Order(gpus, zigzag))
    block = 2 * 128 // gpus * 16 * 2  # K and V of a GPU, float16
    for gpu in range(gpus):
        for owner in set(range(gpus)) - {gpu}:
            share = 1 if not causal else (owner < gpu) * (0.5 if zigzag else 1) + (owner > gpu) * zigzag
            assert found.links.get((owner, gpu), 0) == share * block
    total = {(True, True): 0.75, (True, False): 0.5, (False, False): 1}[causal, zigzag]
    assert sum(found.links.values()) == total * gpus * (gpus - 1) * block


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


@pytest.mark.parametrize("window", [1, 20, 33, 100])
@pytest.mark.parametrize("zigzag", [True, False])
@pytest.mark.parametrize("gpus", [2, 4])
def test_through_a_window_the_keys_that_a_query_sees_come_and_no_others(gpus, zigzag, window):
    """Held against the dense mask: keys that come by each link, and the result."""
    experiment, order = ring_of(128, causal=False, window=window, dtype="float32"), Order(gpus, zigzag)
    problem = experiment.problem
    found, tensors = run(experiment, order)
    assert np.abs(found.trace.out - exact_attention(problem, *tensors)[0]).max() < 1e-4
    shown, holder = visible(problem), order.holders(128)
    seen = np.stack([shown[holder == gpu].any(0) for gpu in range(gpus)])
    for gpu, owner in product(range(gpus), repeat=2):
        keys = 0 if gpu == owner else int((seen[gpu] & (holder == owner)).sum())
        assert found.links.get((owner, gpu), 0) == keys * 2 * 16 * problem.itemsize


def test_a_block_that_is_not_fetched_is_no_number(monkeypatch):
    monkeypatch.setattr("engine.trace.ring.RingExecutor._fetch", lambda *_: None)
    found, _ = run(ring_of(64, causal=False), Order(2, zigzag=False))
    assert np.isnan(found.trace.out).all()


def test_it_is_of_several_gpus_and_not_offered_beside_algorithms_of_one():
    assert "ring" not in offered()
    assert [key for key, record in ALGORITHMS.items() if record.several_gpus] == [ring.ALGORITHM.key]
