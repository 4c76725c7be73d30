"""A file's function `delta` run once, watched, and judged: what the backward pass needs of every query row.

delta = rowsum(dO o O), see `engine.algorithms.backward`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.experiment import Experiment
from engine.problem.dtype import round_to
from engine.problem.inputs import make_output_gradient
from engine.schedule.step import STATISTIC_BYTES
from engine.watch.attention import observed, renamed, verdict
from engine.watch.finding import Finding
from engine.watch.memory import Memory
from engine.watch.numbers import Numbers
from engine.watch.steps import of_head
from engine.watch.user_file import NotServedError
from engine.watch.watch import Watch

SIXTEEN_BITS = 2.0**-11  # sums in 16 bits are off by about this, sums in float32 by far less


def watched(
    function: Callable, experiment: Experiment, stretch: float, seed: int, file: str, notes: list[str]
) -> dict[str, Any]:
    """Run a function as a file's delta on one problem, and judge it: plain values; raises NotServedError."""
    import torch

    problem = experiment.problem
    shape = (problem.batch, problem.heads, problem.seq_q, problem.head_dim)
    out = round_to(Numbers.of(problem, stretch, seed).out, problem.dtype)
    d_out = make_output_gradient(problem, seed, shape[0] * shape[1])
    out, d_out = (each.astype(np.float64).reshape(shape) for each in (out, d_out))
    exact = (out * d_out).sum(3)
    tensors = [torch.from_numpy(each).to(getattr(torch, problem.dtype)) for each in (out, d_out)]
    given = [*tensors, experiment.asked.block_q], {}
    watch = Watch(Memory({"O": out, "dO": d_out}, shape[0] * shape[1]), problem.group, file)
    found = observed(function, given, watch)
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
    return verdict(watch, error, tolerance, findings) | {
        "read_bytes": {name: watch.read[name] for name in ("O", "dO", "delta")},
        "written_bytes": {name: watch.written[name] for name in ("O", "dO", "delta")},
        "flash2_read_bytes": {"O": rows * each, "dO": rows * each, "delta": 0},
        "flash2_written_bytes": {"O": 0, "dO": 0, "delta": rows * STATISTIC_BYTES},
        "steps": of_head(watch, None, problem),
        "notes": notes,
    }
