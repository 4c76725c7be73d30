"""A file's function `delta` run once, watched, and judged: what the backward pass needs of every query row.

delta = rowsum(dO o O), see `engine.algorithms.backward`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from engine.experiment import Experiment
from engine.problem.dtype import round_to
from engine.problem.inputs import make_output_gradient
from engine.problem.problem import Problem
from engine.schedule.step import STATISTIC_BYTES
from engine.watch.attention import observed, renamed
from engine.watch.finding import Finding
from engine.watch.numbers import Numbers
from engine.watch.steps import of_head
from engine.watch.user_file import NotServedError, function_of, prepared

CONTRACT = "delta(out, d_out, block_q)"
SIXTEEN_BITS = 2.0**-11  # sums in 16 bits are off by about this, sums in float32 by far less


GIVEN = ("out", "d_out")


def report(file: Path, experiment: Experiment, stretch: float = 1.0) -> dict[str, Any]:
    """Run the file's delta on one problem: plain values for JSON; raises NotServedError."""
    with prepared() as notes:
        return watched(served(file, experiment), experiment, stretch, 0, str(file), notes)


def served(file: Path, experiment: Experiment) -> Callable:
    """The file's function; raises NotServedError where there is none."""
    return function_of(file, "delta", CONTRACT)


def given_to(
    function: Callable, experiment: Experiment, stretch: float = 1.0
) -> tuple[dict, tuple[list, dict]]:
    """out and d_out by name, and all that a function is called with."""
    tensors = [tensor for tensor, _ in _numbers(experiment.problem, stretch, 0)]
    return dict(zip(GIVEN, tensors, strict=True)), ([*tensors, experiment.asked.block_q], {})


def _numbers(problem: Problem, stretch: float, seed: int) -> list[tuple]:
    """O and dO [batch, heads, seq_q, head_dim]: tensors of the problem's dtype, and float64."""
    import torch

    shape = (problem.batch, problem.heads, problem.seq_q, problem.head_dim)
    out = round_to(Numbers.of(problem, stretch, seed).out, problem.dtype)
    d_out = make_output_gradient(problem, seed, shape[0] * shape[1])
    wide = [each.astype(np.float64).reshape(shape) for each in (out, d_out)]
    return [(torch.from_numpy(each).to(getattr(torch, problem.dtype)), each) for each in wide]


def watched(
    function: Callable, experiment: Experiment, stretch: float, seed: int, file: str, notes: list[str]
) -> dict[str, Any]:
    """Run a function as a file's delta, and judge it; see `report`."""
    import torch

    problem = experiment.problem
    (given_out, out), (given_d_out, d_out) = _numbers(problem, stretch, seed)
    exact = (out * d_out).sum(3)
    given = [given_out, given_d_out, experiment.asked.block_q], {}
    watch, found = observed(function, given, {"O": out, "dO": d_out}, problem, file)
    found = found[0] if isinstance(found, tuple | list) else found
    if not isinstance(found, torch.Tensor) or found.shape != exact.shape:
        raise NotServedError(f"delta must return a tensor of shape {exact.shape}")
    renamed(watch, found, "delta")
    error = np.abs(found.double().numpy() - exact)
    tolerance = float(np.abs(out * d_out).sum(3).max()) * SIXTEEN_BITS / 4
    findings = [*watch.findings]
    if not (error <= tolerance).all() and not findings:
        row = int(np.argmax(~(error <= tolerance).reshape(-1)))
        text = (
            f"delta is not rowsum(dO o O), first in row {row % problem.seq_q} of head {row // problem.seq_q}."
        )
        findings.append(Finding("wrong_values", text, watch.stores.get("delta"), None, "delta"))
    each, rows = problem.head_dim * problem.itemsize, exact.size
    return {
        "right": bool((error <= tolerance).all()),
        "largest_error": float(error.max()) if np.isfinite(error).all() else None,
        "tolerance": tolerance,
        "read_bytes": {name: watch.read[name] for name in ("O", "dO", "delta")},
        "written_bytes": {name: watch.written[name] for name in ("O", "dO", "delta")},
        "flash2_read_bytes": {"O": rows * each, "dO": rows * each, "delta": 0},
        "flash2_written_bytes": {"O": 0, "dO": 0, "delta": rows * STATISTIC_BYTES},
        "launches": watch.launches,
        "steps": of_head(watch, None, problem),
        "notes": notes,
        "findings": [finding.plain() for finding in findings],
    }
