"""The check of the gradients: the job runs the real kernels, and it can fail."""

import re

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.measuring import gradient_check as subject
from engine.measuring.gradient_check import CHECK, GRADIENTS, check, small_backward, unfused_gradients
from engine.problem.bounds import visible
from engine.problem.inputs import make_inputs, make_output_gradient
from engine.problem.problem import Problem
from engine.worker.client import Job, Worker
from tests.engine.strategies import exact_gradients

SMALL = {"seq": 48, "head_dim": 16, "block_q": 16, "block_kv": 32}
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


def ended(worker: Worker, experiment: Experiment) -> Job:
    """The job of a scenario, when it has ended."""
    job = worker.submit(CHECK, small_backward(experiment).flat())
    assert job.wait(600)
    return job


@pytest.mark.parametrize("values", SCENARIOS.values(), ids=SCENARIOS)
def test_kernels_scheduler_and_float64_agree(kernel_worker, values):
    job = ended(kernel_worker, Experiment.of(**{**SMALL, **values}))
    assert job.error is None
    assert all(job.result.holds(gradient) for gradient in GRADIENTS)
    assert all(0 <= job.result.largest(*place) < np.inf for place in job.result.tiles)


@pytest.mark.parametrize(("field", "name"), [("d_q", "dQ"), ("d_v", "dV")])
def test_a_gradient_that_is_off_by_a_part_in_fifty_is_found(monkeypatch, field, name):
    right, problem = subject.execute_backward, Experiment.of(**SMALL, dtype="float32").problem

    def faulty(*arguments):
        trace = right(*arguments)
        getattr(trace, field)[..., 0] *= 1.02
        return trace

    def kernel(experiment, *inputs):  # the real one runs in another process only
        return unfused_gradients(experiment.problem, *inputs, dtype=problem.dtype), "stand-in", True

    monkeypatch.setattr(subject, "execute_backward", faulty)
    monkeypatch.setattr(subject, "_kernel", kernel)
    *_, result = returned(check(small_backward(Experiment.of(**SMALL, dtype="float32")).flat()))
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
    _, lse = subject._weights(problem, scores)
    unit = np.float32(2) ** dropped * np.spacing(np.abs(lse).astype(np.float32))
    lse = np.floor(lse / unit) * unit
    weights = np.where(visible(problem), np.exp((scores - lse).astype(np.float32)), 0)
    d_v = weights.astype(np.float32).T @ inputs[-1][0]
    exact, rounded = (
        unfused_gradients(problem, *inputs, dtype=dtype)["dV"] for dtype in ("float64", "float32")
    )
    allowed = subject._allowed(problem, rounded, exact, subject.exponents(problem, *inputs)["dV"])
    assert (np.abs(d_v - exact).max() <= allowed) == holds


def returned(job):
    """What a job yields, and at last what it returns."""
    yield (yield from job)


def test_the_unfused_formulas_are_the_derivatives():
    problem = Problem(heads=2, kv_heads=1, seq_q=20, seq_kv=30, head_dim=8, dtype="float32")
    q, k, v = make_inputs(problem, heads=2)
    d_out = make_output_gradient(problem, heads=2)
    gradients = unfused_gradients(problem, q, k[0], v[0], d_out)
    heads = [exact_gradients(problem, q[head], k[0], v[0], d_out[head]) for head in range(2)]
    np.testing.assert_allclose(gradients["dQ"], np.stack([head[0] for head in heads]), atol=1e-12)
    np.testing.assert_allclose(gradients["dK"], heads[0][1] + heads[1][1], atol=1e-12)
    np.testing.assert_allclose(gradients["dV"], heads[0][2] + heads[1][2], atol=1e-12)


def test_what_is_run_has_one_key_head_and_few_tiles():
    small = small_backward(Experiment.of(seq=2**17, heads=32, kv_heads=2, batch=4, causal=True)).problem
    assert (small.batch, small.heads, small.kv_heads) == (1, 4, 1)
    assert small.seq_q <= 1024


def test_what_cannot_run_says_so_in_a_sentence(kernel_worker):
    large = ended(kernel_worker, Experiment.of(seq=256, head_dim=256, block_q=256, block_kv=256))
    scheduler = r"the scheduler stops: it needs \d+ KiB, but an H200 allows 227 KiB per block"
    kernel = r"flash2 with 256 x 256 blocks .* needs \d+ bytes of shared memory a block.*"  # on a GPU
    assert re.fullmatch(f"{scheduler}|{kernel}", large.error)
