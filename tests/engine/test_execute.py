"""Schedules run on numbers: exact attention comes out, of the bytes that the traffic says, or with a flaw."""

import numpy as np
import pytest
from hypothesis import given

from engine import Experiment, simulate
from engine.algorithms import compared
from engine.problem.dtype import round_to
from engine.problem.terms import SINK
from engine.trace.execute import execute
from engine.trace.memory import SramOverflow
from engine.trace.rows import ALPHA, DIMS, FLAWS, MAXIMUM, errors, row_statistics
from tests.engine.strategies import exact_attention, experiments, one_head, online, softmax

EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


POLYNOMIAL_ERROR = 8.8e-5  # of an exponential by a polynomial of degree 3: arXiv 2603.05451
SCENARIOS = {
    "causal": {"seq": 192, "head_dim": 32, "heads": 1, "causal": True, "block_q": 64, "block_kv": 32},
    "ragged": {"seq": 150, "head_dim": 16, "heads": 1, "block_q": 64, "block_kv": 32},
    "from the last": {"seq": 256, "head_dim": 64, "heads": 1, "causal": True, "algorithm": "flash3"},
}


def eager_error(problem, q, k, v) -> float:
    """Largest error of the textbook formula with S, P and O rounded to the dtype, against float64."""
    exact, _, scores = exact_attention(problem, q, k, v)
    rounded = round_to(scores, problem.dtype).astype(np.float64)
    m = rounded.max(1, keepdims=True)
    weights = np.exp(rounded - np.where(np.isneginf(m), 0, m))
    total = weights.sum(1, keepdims=True)
    p = round_to(weights / np.where(total == 0, 1, total), problem.dtype)
    return float(np.abs(round_to(p.astype(np.float64) @ v, problem.dtype) - exact).max())


def check(found_out, found_lse, problem, tensors, rounds=2, stored=EPSILON["float32"], off=0.0):
    """O and lse of one head against float64.

    rounds: how often O is rounded, stored: by how much S is, off: relative error of an exponential.
    """
    out, lse, scores = exact_attention(problem, *tensors)
    largest = np.abs(tensors[2]).max()
    allowed = eager_error(problem, *tensors) + (4 * EPSILON[problem.dtype] + off) * largest
    assert np.abs(found_out - out).max() <= rounds * allowed
    blind = np.isneginf(scores).all(1)
    np.testing.assert_array_equal(np.isneginf(found_lse), blind & (not problem.sinks))
    assert not found_out[blind].any()
    largest = np.abs(scores[np.isfinite(scores)]).max(initial=1)
    near = (16 * EPSILON["float32"] + stored) * largest + off
    np.testing.assert_allclose(found_lse[~blind], lse[~blind], atol=near)


@given(experiments())
def test_a_trace_is_attention_as_float64_has_it_of_the_bytes_that_are_asked_for_and_row_by_row(experiment):
    problem, tensors = experiment.problem, one_head(experiment)
    trace, simulation = execute(experiment, *tensors), simulate(experiment)
    # flash1 rounds O once a key block, the others once; unfused S has the dtype
    rounds = 2 + len(simulation.schedule.key_rows) if experiment.algorithm == "flash1" else 2
    stored = EPSILON[problem.dtype if experiment.algorithm == "standard" else "float32"]
    polynomials = POLYNOMIAL_ERROR * (experiment.record.pipeline.polynomials > 0)
    check(trace.out, trace.lse, problem, tensors, rounds, stored, polynomials)
    # bytes
    assert trace.counted == simulation.traffic.per_head.requested
    assert trace.peak_sram_bytes <= simulation.footprint.sram_bytes
    if simulation.traffic.tiles_visited:
        assert trace.peak_sram_bytes == simulation.footprint.sram_bytes
    # rows followed alone
    rows = row_statistics(experiment, *tensors[:2], np.arange(problem.seq_q))
    for name in ("m", "l", "alpha"):
        visits = getattr(trace, name)
        by_row = visits.transpose(0, 2, 1).reshape(-1, visits.shape[1])[: problem.seq_q]
        np.testing.assert_allclose(getattr(rows, name), by_row, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(rows.lse, trace.lse, rtol=1e-5, atol=1e-5)
    left = np.exp(SINK - trace.lse) if problem.sinks else 0  # what a sink takes
    np.testing.assert_allclose(rows.weight.sum(1), np.isfinite(trace.lse) - left, atol=1e-5)


def test_weights_of_the_tiles_are_shares_of_the_exact_softmax():
    experiment = Experiment.of(heads=1, seq=300, causal=True, block_kv=32)
    q, k, v = one_head(experiment)
    scores = exact_attention(experiment.problem, q, k, v)[2]
    rows = np.array([0, 31, 32, 299])
    weights = np.pad(softmax(scores), ((0, 0), (0, 20))).reshape(300, 10, 32).sum(2)
    np.testing.assert_allclose(row_statistics(experiment, q, k, rows).weight, weights[rows], atol=1e-6)


@pytest.mark.parametrize(("algorithm", "seq"), [("flash1", 96), ("flash2", 96), ("flash3", 300)])
def test_visits_hold_the_maximum_and_the_sum_of_all_keys_so_far(algorithm, seq):
    """FlashAttention-3 takes blocks of 128 keys, the last first."""
    values = {"heads": 1, "dtype": "float32", "head_dim": 16, "block_q": 32, "block_kv": 32}
    experiment = Experiment.of(algorithm=algorithm, seq=seq, **values)
    tensors = one_head(experiment)
    trace = execute(experiment, *tensors)
    for before, after in zip(one_head(experiment), tensors, strict=True):  # inputs are left as they were
        np.testing.assert_array_equal(before, after)
    for row in range(seq):
        for block, visit in online(experiment, tensors, row).items():
            at = row // experiment.tiling.block_q, block, row % experiment.tiling.block_q
            found = trace.m[at], trace.l[at], trace.alpha[at]
            assert found == pytest.approx((visit.m, visit.sum, visit.alpha), rel=1e-5)


def test_tiles_that_do_not_fit_are_refused_with_need_and_capacity():
    experiment = Experiment.of(heads=1, seq=256, head_dim=256, block_q=128, block_kv=128, hardware="a100")
    said = r"^needs \d+ KiB, but an A100 allows 163 KiB per block$"
    with pytest.raises(SramOverflow, match=said) as caught:
        execute(experiment, *one_head(experiment))
    assert caught.value.need > caught.value.capacity == 163 * 1024
    assert not simulate(experiment).footprint.fits


@pytest.mark.parametrize("algorithm", compared())
def test_inputs_of_a_wrong_shape_are_named(algorithm):
    experiment = Experiment.of(algorithm=algorithm, seq=32, seq_kv=48, head_dim=16)
    q, k, v = one_head(experiment)
    with pytest.raises(ValueError, match=r"^k has shape \(32, 16\); it must be \(48, 16\)$"):
        execute(experiment, q, k[:32], v)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_p_is_rounded_before_it_meets_v_and_its_sum_is_not(dtype):
    """One tile by hand: l sums P in float32, P V takes it in 16 bits, as tensor cores do."""
    experiment = Experiment.of(heads=1, seq=64, head_dim=64, dtype=dtype)
    q, k, v = one_head(experiment)
    scores = (q.astype(np.float64) @ k.T.astype(np.float64)) / 8
    p = np.exp(scores - scores.max(1, keepdims=True))
    total = p.sum(1, keepdims=True)
    alike = [
        (round_to(weights @ v.astype(np.float64) / total, dtype) == execute(experiment, q, k, v).out).mean()
        for weights in (round_to(p, dtype).astype(np.float64), p)
    ]
    assert alike[0] > 0.99
    assert alike[1] < 0.9


@pytest.mark.parametrize("flaw", FLAWS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_o_is_off_by_what_a_loop_without_that_line_gives(name, flaw):
    experiment = Experiment.of(**SCENARIOS[name])
    q, k, v = one_head(experiment)
    rows = np.array([7, 70, experiment.problem.seq_q - 1])
    given = errors(experiment, q, k, v, rows)[flaw]
    cut = q, k, v[:, :DIMS]
    right, wrong = ([online(experiment, cut, row, which) for row in rows] for which in ("", flaw))
    largest = max(np.abs(visit.out).max() for row in right for visit in row.values())
    for row, (exact, other) in enumerate(zip(right, wrong, strict=True)):
        for block, visit in exact.items():
            off = np.abs(other[block].out - visit.out).max() / largest
            assert given[row, block] == pytest.approx(off, abs=2e-3)


def test_numbers_that_overflow_float16_need_the_maximum():
    experiment = Experiment.of(seq=64, head_dim=16, heads=1, block_q=32, block_kv=32)
    q, k, v = one_head(experiment)
    off = errors(experiment, 40 * q, k, v, np.arange(64))
    assert np.isinf(off[MAXIMUM][:, -1]).any()
    assert np.isfinite(off[ALPHA]).all()
