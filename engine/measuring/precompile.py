"""Compiling takes longest, a second or two a kernel: done on all cores at once, into Triton's cache."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

from engine.algorithms import ALGORITHMS, BACKWARD, FORWARD
from engine.experiment import Experiment
from engine.measuring.trial import attempt, mask_arguments, random_inputs
from engine.model.launch import HEAVY_FIRST
from engine.problem.problem import Problem
from engine.worker.jobs import JobError
from kernels.tilings.flash2 import SHORT

SMALL, LONG = 256, 2048  # tokens that are enough to have a kernel compiled for few keys and for many
MOST_PROCESSES = 14


@dataclass(frozen=True)
class Kernel:
    """One way to call a kernel of this project; None is its own choice."""

    algorithm: str
    problem: Problem
    direction: str = FORWARD
    block_q: int | None = None
    block_kv: int | None = None
    warps: int | None = None
    stages: int | None = None
    traced_order: str | None = None

    @classmethod
    def of(cls, experiment: Experiment) -> Kernel:
        """An experiment's, in its blocks."""
        tiling = experiment.tiling
        return cls(experiment.algorithm, experiment.problem, FORWARD, tiling.block_q, tiling.block_kv)

    def options(self, problem: Problem | None = None) -> dict[str, Any]:
        """What `kernels.attention` is given beside tensors, of its problem or of another like it."""
        blocks = {"block_q": self.block_q, "block_kv": self.block_kv}
        return {"algorithm": self.algorithm, **mask_arguments(problem or self.problem), **blocks}


def smaller(problem: Problem, algorithm: str) -> Problem:
    """A problem that compiles the same: two key heads, fewer queries and keys unless a kernel holds a row."""
    group = problem.group
    rows, keys = _few(problem.seq_q), _few(problem.seq_kv)
    if ALGORITHMS[algorithm].unfused:
        rows, keys = 16, problem.seq_kv
    mask = problem.mask.resized(keys, problem.seq_kv)
    return replace(problem, batch=1, heads=2 * group, kv_heads=2, seq_q=rows, seq_kv=keys, mask=mask)


def _few(length: int) -> int:
    """A short length that takes the same kernel, ragged where this one is."""
    return min(length, (LONG if length > SHORT else SMALL) + length % SMALL)


def compile_all(kernels: list[Kernel], seconds: float) -> Iterator[Kernel]:
    """Those that were compiled (or failed to) in this time, as they come; the rest is given up."""
    end = time.monotonic() + seconds
    processes = min(MOST_PROCESSES, max(1, (os.cpu_count() or 2) - 1), len(kernels))
    if processes == 0:
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        done = pool.imap_unordered(_compiled, kernels)
        try:
            for _ in kernels:
                yield done.next(timeout=max(0.1, end - time.monotonic()))
        except multiprocessing.TimeoutError:
            return


def _compiled(kernel: Kernel) -> Kernel:
    """Runs in a process of its own; what fails here fails again, with its reason, when it is to be timed."""
    import torch

    torch.set_num_threads(1)
    cuda = torch.cuda.is_available()
    problem = smaller(kernel.problem, kernel.algorithm)
    inputs = random_inputs(problem, cuda)
    backward = kernel.direction == BACKWARD
    with suppress(JobError):
        attempt(lambda: _run(kernel, [tensor.requires_grad_(backward) for tensor in inputs], problem), cuda)
    return kernel


def _run(kernel: Kernel, inputs, problem: Problem) -> None:
    from kernels import attention, launch_options, trace_attention

    if kernel.traced_order is not None:
        trace_attention(*inputs, **kernel.options(problem), heavy_first=kernel.traced_order == HEAVY_FIRST)
    with launch_options(kernel.warps, kernel.stages) if kernel.warps and kernel.stages else nullcontext():
        out = attention(*inputs, **kernel.options(problem))
    if kernel.direction == BACKWARD:
        out.sum().backward()
