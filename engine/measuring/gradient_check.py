"""Gradients computed three ways and compared: the real kernels, the scheduler, and float64.

torch and kernels are imported inside functions; it runs in the worker process.
"""

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from engine.algorithms import backward, flash2
from engine.experiment import Experiment
from engine.measuring.agreement import MOST_SCORES, MOST_SECONDS, PAIRS, ROUNDING, Agreement
from engine.measuring.exact import gradients
from engine.measuring.interpreter import quick
from engine.measuring.libraries import kernels, torch
from engine.measuring.machine import machine
from engine.measuring.precompile import Kernel
from engine.measuring.trial import refusals
from engine.problem.bounds import visible
from engine.problem.dtype import dtype_named
from engine.problem.inputs import make_inputs, make_output_gradient
from engine.problem.problem import Problem
from engine.trace.execute import execute, execute_backward
from engine.worker.jobs import JobError, Update

CHECK = "engine.measuring.gradient_check:check"
GRADIENTS = ("dQ", "dK", "dV")
MOST_HEADS = 4  # query heads that share the key head
TIMES = 4  # the unfused formulas' error, and rounding units, that a gradient may be off
ORIGIN = (
    f"{TIMES} times the error of the unfused formulas, matrices rounded to the dtype, on the same numbers, "
    f"plus {TIMES} rounding units of the largest value, plus what float32 leaves where dP − δ should be 0 "
    "and in the exponents of P"
)

Gradients = Mapping[str, np.ndarray]


def small_backward(experiment: Experiment) -> Experiment:
    """What is run for an experiment: one key head with its query heads, seconds even when interpreted."""
    problem = experiment.problem
    heads = min(problem.group, MOST_HEADS)
    alone = {"batch": 1, "heads": heads, "kv_heads": 1, "splits": 1, "stages": 2}
    return quick(experiment.changed(algorithm=backward.ALGORITHM.key, **alone), MOST_SECONDS, MOST_SCORES)


def check(payload: dict[str, Any]) -> Generator[Update, None, Agreement]:
    """The job behind the Backward page; its payload is a small backward's flat values."""
    experiment = Experiment.of(**payload)
    problem = experiment.problem
    if problem.unserved:
        raise JobError(problem.unserved)
    q, k, v = make_inputs(problem, heads=problem.heads)
    inputs = (q, k[0], v[0], make_output_gradient(problem, heads=problem.heads))
    yield Update(0.0, "Importing PyTorch and Triton, running the kernels")
    kernel, device, interpreted = _kernel(experiment, *inputs)
    yield Update(0.6, "Running the scheduler")
    trace = _trace(experiment, *inputs)
    yield Update(0.8, "Computing in float64")
    exact = unfused_gradients(problem, *inputs)
    rounded = unfused_gradients(problem, *inputs, dtype=problem.dtype)
    floors = {**cancellation(problem, *inputs), **exponents(problem, *inputs)}
    allowed = {name: _allowed(problem, rounded[name], exact[name], floors[name]) for name in GRADIENTS}
    held = {"kernel": kernel, "trace": trace, "float64": exact}
    differences = {
        (name, pair): np.array([[_largest(held[pair[0]][name], held[pair[1]][name])]])
        for name in GRADIENTS
        for pair in PAIRS
    }
    return Agreement.now(experiment, device, interpreted, allowed, differences)


def unfused_gradients(problem: Problem, q, k, v, d_out, dtype: str = "float64") -> Gradients:
    """dQ [heads, seq_q, d], dK and dV [seq_kv, d] from whole matrices, which all have this dtype."""
    q, k, v, d_out = (torch.from_numpy(each).to(getattr(torch, dtype)) for each in (q, k, v, d_out))
    heads = [gradients(own, k, v, gradient, problem) for own, gradient in zip(q, d_out, strict=True)]
    d_q, d_k, d_v = zip(*heads, strict=True)
    found = {"dQ": torch.stack(d_q), "dK": sum(d_k), "dV": sum(d_v)}
    return {name: gradient.double().numpy() for name, gradient in found.items()}


def _weights(problem: Problem, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P, and lse [seq_q, 1], 0 of a row that sees no key."""
    seen = visible(problem)
    m = np.where(seen, scores, -np.inf).max(1, keepdims=True)
    m = np.where(np.isneginf(m), 0.0, m)
    exponentials = np.where(seen, np.exp(np.where(seen, scores, 0.0) - m), 0.0)
    total = exponentials.sum(1, keepdims=True)
    total = np.where(total == 0, 1.0, total)
    return exponentials / total, m + np.log(total)


def cancellation(problem: Problem, q, k, v, d_out) -> dict[str, float]:
    """What dQ and dK may be where dP - delta is 0: a float32 dot product of d terms, roundings at random."""
    q_norm, k_norm, v_norm, d_norm = (float(np.linalg.norm(each, axis=-1).max()) for each in (q, k, v, d_out))
    difference = (problem.head_dim**0.5 + 4) * ROUNDING * d_norm * v_norm
    return {"dQ": difference * k_norm * problem.scale, "dK": difference * q_norm * problem.scale}


def exponents(problem: Problem, q, k, v, d_out) -> dict[str, float]:
    """What dV may be off by as P is exp2 of the difference of two float32s, s and lse: roundings at random.

    d products are summed to s, whose partial sums grow, and s is scaled once; lse is a sum's logarithm,
    turned to natural units and back, and subtracted; exp2 is off by 2^-22.5 on a GPU (PTX ISA, ex2.approx).
    """
    k, squares = k.astype(np.float64), 0.0
    for own, gradient in zip(q.astype(np.float64), d_out.astype(np.float64), strict=True):
        scores = own @ k.T * problem.scale
        weights, lse = _weights(problem, scores)
        units = (problem.head_dim / 3 + 1) * scores**2 + 5 * lse**2 + 2
        squares = squares + (weights**2 * units).T @ gradient**2
    return {"dV": float(ROUNDING * np.sqrt(np.max(squares)))}


def _allowed(problem: Problem, rounded: np.ndarray, exact: np.ndarray, floor: float) -> float:
    error, unit = np.abs(rounded - exact).max(), dtype_named(problem.dtype).eps * np.abs(exact).max()
    return float(TIMES * (error + unit) + floor)


def _largest(one: np.ndarray, other: np.ndarray) -> float:
    """The largest absolute difference; infinite where one is no number."""
    difference = np.abs(one.astype(np.float64) - other)
    return float(np.where(np.isnan(difference), np.inf, difference).max())


def _kernel(experiment: Experiment, q, k, v, d_out) -> tuple[Gradients, str, bool]:
    """What PyTorch's autograd gets from the real kernels, the device, and whether they were interpreted."""
    run = Kernel.of(experiment.changed(algorithm=flash2.ALGORITHM.key))
    with refusals():
        here, dtype = machine(), getattr(torch, experiment.problem.dtype)
        place = {"device": "cuda" if here.cuda else "cpu", "dtype": dtype}
        tensors = [torch.from_numpy(array).to(**place) for array in (q[None], k[None, None], v[None, None])]
        tensors = [tensor.requires_grad_() for tensor in tensors]
        out = kernels.attention(*tensors, **run.options)
        out.backward(torch.from_numpy(d_out[None]).to(**place))
    d_q, d_k, d_v = (tensor.grad.double().cpu().numpy() for tensor in tensors)
    return {"dQ": d_q[0], "dK": d_k[0, 0], "dV": d_v[0, 0]}, here.device, kernels.interpreted()


def _trace(experiment: Experiment, q, k, v, d_out) -> Gradients:
    """What the scheduler's own execution gets, forward and backward; raises JobError."""
    forward = experiment.changed(algorithm=flash2.ALGORITHM.key)
    with refusals():
        heads = [execute(forward, own, k, v) for own in q]
        out, lse = np.stack([head.out for head in heads]), np.stack([head.lse for head in heads])
        trace = execute_backward(experiment, q, k, v, out, lse, d_out)
    return {"dQ": trace.d_q, "dK": trace.d_k, "dV": trace.d_v}
