"""FlashAttention-4: its bytes are a walk's, its maxima those of a loop, its polynomial is 2^x."""

import numpy as np
import pytest

from engine import Experiment, simulate
from engine.algorithms import flash4
from engine.problem.heads import Heads
from engine.problem.inputs import make_inputs
from engine.schedule.step import Tensor
from engine.small.model import small
from engine.trace.dense import exact_tiles
from engine.trace.execute import execute
from engine.trace.softmax import exp2_by_polynomial, exponentials
from tests.engine.strategies import dense_mask, one_head, online

B200 = {"algorithm": "flash4", "hardware": "b200", "heads": 1}
CASES = [
    {"seq": 700, "causal": True, "head_dim": 64},
    {"seq": 1000, "head_dim": 128, "window": 300},
    {"seq": 300, "seq_kv": 900, "head_dim": 64},
    {"seq": 100, "seq_kv": 400, "head_dim": 32},  # one query tile
    {"seq": 500, "head_dim": 192, "head_dim_v": 128, "causal": True},
    {"seq": 300, "head_dim": 256},  # two tiles' S and O do not fit tensor memory
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_requests_are_those_of_a_walk_over_the_tiles_and_of_the_execution(case):
    experiment = Experiment.of(**B200, **case)
    problem, seen = experiment.problem, dense_mask(experiment.problem)
    rows = 128 if problem.seq_q <= 128 or problem.v_dim > 128 else 256
    first = range(0, problem.seq_q, rows)
    visits = sum(seen[row : row + rows, key : key + 128].any() for row in first for key in keys_of(problem))
    found = simulate(experiment).traffic.requested
    assert found.read[Tensor.Q] == len(first) * rows * problem.head_dim * 2  # boxes of TMA, whole
    assert found.read[Tensor.K] == visits * 128 * problem.head_dim * 2
    assert found.read[Tensor.V] == visits * 128 * problem.v_dim * 2
    assert found.written[Tensor.O] == problem.seq_q * problem.v_dim * 2
    assert execute(experiment, *one_head(experiment)).counted == found


def keys_of(problem) -> range:
    return range(0, problem.seq_kv, 128)


@pytest.mark.parametrize("spread", [1.0, 12.0])
def test_a_maximum_stays_until_a_score_passes_it_by_more_than_two_to_the_eighth(spread):
    """By a loop over one row's key blocks in float64, last first; O and lse are those of float64 anyway."""
    experiment = Experiment.of(**B200, seq=640, head_dim=16)
    q, k, v = one_head(experiment)
    tensors = spread * q, k, v
    trace = execute(experiment, *tensors)
    exact = exact_tiles(experiment, *tensors)
    np.testing.assert_allclose(trace.out, exact.out, atol=2e-3 * np.abs(v).max())
    skipped = raised = 0
    for row in range(0, 640, 37):
        for block, visit in online(experiment, tensors, row, threshold=8).items():
            skipped += visit.m == visit.before < visit.largest
            raised += visit.m > visit.before
            at = row // 256, block, row % 256
            assert trace.m[at] == pytest.approx(visit.m, rel=1e-5)
            assert trace.alpha[at] == pytest.approx(visit.alpha, rel=1e-4)
    assert skipped > 0
    assert (raised > 18) == (spread > 1)  # of 18 rows, each of which takes its first


def test_the_polynomial_is_two_to_the_x():
    x = np.linspace(-130, 8, 200_001, dtype=np.float32)
    found, exact = exp2_by_polynomial(x), np.exp2(x.astype(np.float64))
    assert (found[x <= -127] == 0).all()
    inside = x > -126
    assert np.abs(found / exact - 1)[inside].max() < 8.8e-5  # arXiv 2603.05451
    assert exp2_by_polynomial(np.float32([-np.inf, 0, 3])).tolist() == [0, 1, 8]


def test_as_many_exponentials_are_polynomials_as_the_record_says():
    scores = np.float32(np.random.default_rng(0).uniform(-9, 0, (64, 128)))
    exact, pipeline = np.exp(scores.astype(np.float64)), flash4.ALGORITHM.pipeline
    off = np.abs(exponentials(scores, np.zeros((64, 1), np.float32), pipeline) / exact - 1) > 1e-6
    assert off.any(0).mean() == pipeline.polynomials == 24 / 128


@pytest.mark.parametrize(("head_dim", "v_dim", "stages"), [(64, 64, 10), (128, 128, 3), (192, 128, 2)])
def test_buffers_fill_the_shared_memory_that_the_public_kernel_sets_aside(head_dim, v_dim, stages):
    given = {"head_dim": head_dim, "head_dim_v": v_dim} if head_dim != v_dim else {"head_dim": head_dim}
    experiment = Experiment.of(**B200, seq=4096, **given)
    held = simulate(experiment).footprint
    assert held.parts[1].label == f"{stages} × K or V"
    assert held.fits
    assert held.shared_bytes <= 224 * 1024
    assert flash4.tiles(experiment.problem) == 2


def test_fewer_exponentials_and_rescales_take_less_time_where_they_are_what_is_waited_for():
    third, fourth = (
        simulate(Experiment.of(**B200 | {"algorithm": each, "heads": 16}, seq=16384, head_dim=128)).modelled
        for each in ("flash3", "flash4")
    )
    assert 1.03 < third.seconds / fourth.seconds < 1.3


def test_real_heads_come_out_as_in_float64_and_are_rescaled_less_often_than_their_maxima_rise():
    """Of the small model that is shipped, on a text of its own language, last key block first."""
    words = "It was a wet evening, and the old gentleman would not be persuaded to leave the fire. "
    layers = small().run(small().tokens.encoded(words * 24))[1]
    rose = rescaled = 0
    for q, k, v in (layers[1], layers[3], layers[5]):
        heads = Heads.of(q, k, v)
        experiment = Experiment.of(algorithm="flash4", hardware="b200", causal=True, inputs=heads)
        one = experiment.changed(heads=1, kv_heads=1)
        tensors = [array[0] for array in make_inputs(experiment.problem, heads=1)]
        trace, exact = execute(one, *tensors), exact_tiles(one, *tensors)
        np.testing.assert_allclose(trace.out, exact.out, atol=2e-3 * np.abs(exact.out).max())
        scores = np.where(dense_mask(one.problem), tensors[0] @ tensors[1].T * one.problem.scale, -np.inf)
        tiles = [scores[:, at : at + 128].max(1) for at in keys_of(one.problem)][::-1]
        highest = np.maximum.accumulate(np.stack(tiles, 1), 1)
        rose += int(((highest[:, 1:] > highest[:, :-1]) & np.isfinite(highest[:, :-1])).sum())
        rescaled += int(((trace.alpha < 1) & (trace.alpha > 0)).sum())
    assert 0 < rescaled < rose / 3
