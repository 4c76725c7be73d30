"""Scheduler, kernel and float64 hold the same numbers in every tile, and gradients; a wrong one is found."""

import re
from dataclasses import replace

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.measuring import agreement
from engine.measuring.agreement import AGREE, CHECK, GRADIENTS, PAIRS, small_backward, unfused_gradients
from engine.measuring.bench import interpreter_seconds
from engine.problem.bounds import visible
from engine.problem.inputs import make_inputs, make_output_gradient
from engine.problem.problem import Problem
from engine.trace.dense import Held, exact_tiles
from engine.trace.execute import execute
from engine.worker.jobs import JobError
from tests.engine.strategies import exact_gradients, one_head, returned

TINY = {"seq": 64, "heads": 1, "head_dim": 16, "block_q": 32, "block_kv": 16}
PACKED = {"documents": "37:0:27", "window": "7:3"}
TERMS = {"softcap": 4.0, "sinks": True, "slopes": True, "window": 40}
PREFIX = {"causal": True, "prefix": 20, "softcap": 30.0, "head_dim_v": 32}
SMALL = {"seq": 48, "head_dim": 16, "block_q": 16, "block_kv": 32}


def ended(worker, work: str, experiment: Experiment):
    """The job of a scenario, when it has ended."""
    job = worker.submit(work, experiment.flat())
    assert job.wait(600)
    return job


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2"])
@pytest.mark.parametrize("mask", [{}, {"causal": True}, {"window": 9, "seq_kv": 50}, PACKED, TERMS, PREFIX])
def test_the_three_agree_through_the_worker(kernel_worker, algorithm, mask):
    job = ended(kernel_worker, AGREE, Experiment.of(**TINY, algorithm=algorithm, **mask))
    assert job.error is None
    found = job.result
    assert {*found.quantities} == {"O", "lse", "m", "l", *(["alpha"] if algorithm != "standard" else [])}
    assert all(found.holds(quantity) for quantity in found.quantities)
    for pair in PAIRS:
        visited = ~np.isnan(found.tiles["m", pair])
        assert visited.any()
        if algorithm == "flash2" and mask == {"causal": True}:
            assert visited.tolist() == [[True, True, False, False], [True] * 4]


def test_keys_in_pages_are_refused_in_a_sentence():
    with pytest.raises(JobError, match="no kernel reports its tiles of keys in pages: leave out page_size"):
        next(agreement.agree(Experiment.of(**TINY, algorithm="split_kv", page_size=16).flat()))


def test_tiles_in_float64_are_what_their_definition_says():
    experiment = Experiment.of(**TINY, causal=True)
    q, k, v = one_head(experiment)
    exact = exact_tiles(experiment, q, k, v)
    row, block = 40, 1
    scores = (q[row].astype(np.float64) @ k.astype(np.float64).T) * 0.25
    until = scores[: min((block + 1) * 16, row + 1)]
    assert exact.m[1, block, row - 32] == pytest.approx(until.max(), abs=1e-14)
    assert exact.l[1, block, row - 32] == pytest.approx(np.exp(until - until.max()).sum(), rel=1e-13)
    alpha = np.exp(scores[:16].max() - until.max())
    assert exact.alpha[1, block, row - 32] == pytest.approx(alpha, rel=1e-13)
    assert np.isnan(exact.m[0, 3]).all()
    blind = Experiment.of(**{**TINY, "seq_kv": 20}, causal=True)  # rows that see no key are compared too
    exact = exact_tiles(blind, *one_head(blind))
    assert np.isneginf(exact.lse[:44]).all()
    assert (exact.out[:44] == 0).all()


def run_of(experiment: Experiment) -> tuple[Held, Held]:
    """A scenario's first head by the scheduler, and in float64."""
    trace = execute(experiment, *one_head(experiment))
    held = Held(trace.out, trace.lse, trace.m, trace.l, trace.alpha)
    return held, exact_tiles(experiment, *one_head(experiment))


@pytest.mark.parametrize("spoilt", ["m", "l", "alpha", "lse", "out"])
def test_a_wrong_number_in_one_tile_is_found_there(spoilt):
    """One that is not there is an infinite difference."""
    pytest.importorskip("torch")
    experiment = Experiment.of(**TINY)
    held, exact = run_of(experiment)
    values = getattr(held, spoilt).copy()
    place = (1, 2, 5) if values.ndim == 3 else (37,)
    quantity = "O" if spoilt == "out" else spoilt
    allowed = agreement.tolerances(experiment, exact, one_head(experiment))[quantity]
    for wrong in (values[place] + 0.1 * (1 + abs(values[place])), np.nan):
        values[place] = wrong
        kernel = replace(held, **{spoilt: values})
        tiles = agreement.compare(experiment, {"kernel": kernel, "trace": held, "float64": exact})
        bad = tiles[quantity, ("kernel", "float64")] > allowed
        assert np.argwhere(bad).tolist() == [[1, 2 if values.ndim == 3 else 0]]
    assert np.isinf(tiles[quantity, ("kernel", "trace")].max())


@pytest.mark.parametrize(
    "values", [{"seq": 2**20}, {"seq": 1, "seq_kv": 2**17}, {"block_q": 1024, "seq": 2**16}]
)
def test_a_large_scenario_runs_as_a_sibling_of_seconds(values):
    assert agreement.small_sibling(Experiment.of(**TINY)) == Experiment.of(**TINY)
    sibling = agreement.small_sibling(Experiment.of(**values, algorithm="standard"))
    assert interpreter_seconds(sibling) <= 3
    assert (sibling.problem.heads, sibling.problem.batch) == (1, 1)
    small = small_backward(Experiment.of(heads=32, kv_heads=2, batch=4, causal=True, **values)).problem
    assert (small.batch, small.heads, small.kv_heads) == (1, 4, 1)
    assert small.seq_q <= 1024


@pytest.mark.parametrize("work", [AGREE, CHECK])
def test_what_cannot_run_says_so_in_a_sentence(kernel_worker, work):
    large = Experiment.of(seq=256, heads=1, head_dim=256, block_q=256, block_kv=256)
    scheduler = r"the scheduler stops: it needs \d+ KiB, but an H200 allows 227 KiB per block"
    kernel = r"flash2 with 256 x 256 blocks .* needs \d+ bytes of shared memory a block.*"  # on a GPU
    assert re.fullmatch(f"{scheduler}|{kernel}", ended(kernel_worker, work, large).error)


def test_what_is_kept_is_the_usual_scenarios_and_is_found_again(tmp_path, monkeypatch):
    """Of the pair that needs no kernel; another processor rounds its sums in another order."""
    found, pair = agreement.kept(), ("trace", "float64")
    assert (found.experiment, found.agrees) == (agreement.small_sibling(Experiment()), True)
    held, exact = run_of(found.experiment)
    again = agreement.compare(found.experiment, {"trace": held, "kernel": held, "float64": exact})
    for quantity in found.quantities:
        assert np.nanmax(again[quantity, pair]) == pytest.approx(found.largest(quantity, pair), rel=0.5)
    monkeypatch.setattr(agreement, "KEPT", tmp_path / "kept.npz")
    agreement.keep(found)
    assert agreement.kept.__wrapped__().tiles.keys() == found.tiles.keys()


SCENARIOS = {
    "plain": {},
    "causal, heads that share keys": {"heads": 4, "kv_heads": 2, "causal": True},
    "window, bfloat16": {"window": 20, "dtype": "bfloat16"},
    "more queries than keys, float32": {"seq": 40, "seq_kv": 25, "causal": True, "dtype": "float32"},
    "one token": {"seq": 1, "block_kv": 16},
    "documents, and a window to both sides": {"documents": [39, 9], "window": "7:3"},
    "a cap, sinks, slopes, V of 24": {"softcap": 20, "sinks": True, "slopes": True, "head_dim_v": 24},
    "a prefix": {"causal": True, "prefix": 20},
}


@pytest.mark.parametrize("values", SCENARIOS.values(), ids=SCENARIOS)
def test_kernels_scheduler_and_float64_agree(kernel_worker, values):
    job = ended(kernel_worker, CHECK, small_backward(Experiment.of(**{**SMALL, **values})))
    assert job.error is None
    assert all(job.result.holds(gradient) for gradient in GRADIENTS)
    assert all(0 <= job.result.largest(*place) < np.inf for place in job.result.tiles)


@pytest.mark.parametrize(("field", "name"), [("d_q", "dQ"), ("d_v", "dV")])
def test_a_gradient_that_is_off_by_a_part_in_fifty_is_found(monkeypatch, field, name):
    right, problem = agreement.execute_backward, Experiment.of(**SMALL, dtype="float32").problem

    def faulty(*arguments):
        trace = right(*arguments)
        getattr(trace, field)[..., 0] *= 1.02
        return trace

    def kernel(experiment, *inputs):  # the real one runs in another process only
        return unfused_gradients(experiment.problem, *(each.numpy() for each in inputs), dtype=problem.dtype)

    monkeypatch.setattr(agreement, "execute_backward", faulty)
    monkeypatch.setattr(agreement, "_kernel_gradients", kernel)
    result = returned(agreement.check(small_backward(Experiment.of(**SMALL, dtype="float32")).flat()))
    assert [gradient for gradient in GRADIENTS if not result.holds(gradient)] == [name]
    assert result.largest(name, ("kernel", "float64")) <= result.tolerance[name]


@pytest.mark.parametrize(("dropped", "holds"), [(0, True), (3, False), (13, False)], ids=str)
def test_dv_may_be_off_by_what_float32_leaves_in_exponents_and_not_by_more(dropped, holds):
    """dropped: bits of lse that are lost; float32 with 13 fewer is TF32."""
    problem = small_backward(Experiment.of(**SMALL | SCENARIOS["more queries than keys, float32"])).problem
    q, k, v = make_inputs(problem, heads=1)
    inputs = q, k[0], v[0], make_output_gradient(problem, heads=1)
    scores = np.float32(0) + sum(q[0][:, [c]] * k[0][:, c] for c in range(problem.head_dim))
    scores *= np.float32(problem.scale)
    lse = np.logaddexp.reduce(np.where(visible(problem), scores, -np.inf), axis=1, keepdims=True)
    lse = np.where(np.isneginf(lse), 0, lse)
    unit = np.float32(2) ** dropped * np.spacing(np.abs(lse).astype(np.float32))
    lse = np.floor(lse / unit) * unit
    weights = np.where(visible(problem), np.exp((scores - lse).astype(np.float32)), 0)
    d_v = weights.astype(np.float32).T @ inputs[-1][0]
    dtypes = "float64", "float32"
    exact, rounded = (unfused_gradients(problem, *inputs, dtype=dtype)["dV"] for dtype in dtypes)
    allowed = agreement._allowed(problem, rounded, exact, agreement.exponents(problem, *inputs)["dV"])
    assert (np.abs(d_v - exact).max() <= allowed) == holds


def test_the_unfused_formulas_are_the_derivatives():
    problem = Problem(heads=2, kv_heads=1, seq_q=20, seq_kv=30, head_dim=8, dtype="float32")
    q, k, v = make_inputs(problem, heads=2)
    d_out = make_output_gradient(problem, heads=2)
    gradients = unfused_gradients(problem, q, k[0], v[0], d_out)
    heads = [exact_gradients(problem, q[head], k[0], v[0], d_out[head]) for head in range(2)]
    np.testing.assert_allclose(gradients["dQ"], np.stack([head[0] for head in heads]), atol=1e-12)
    np.testing.assert_allclose(gradients["dK"], heads[0][1] + heads[1][1], atol=1e-12)
    np.testing.assert_allclose(gradients["dV"], heads[0][2] + heads[1][2], atol=1e-12)
