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
from engine.measuring.exact import options_of
from engine.measuring.libraries import kernels, torch
from engine.measuring.trial import attempt, random_inputs
from engine.model.launch import HEAVY_FIRST
from engine.problem.problem import Problem
from engine.recordings.recording import Row
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

    @classmethod
    def of_row(cls, row: Row) -> Kernel:
        """What a row of a recording is a call of."""
        own = {name: getattr(row, name, None) for name in ("block_q", "block_kv", "warps", "stages")}
        algorithm, direction = getattr(row, "algorithm", None), getattr(row, "direction", FORWARD)
        order = getattr(row, "order", None)
        return cls(algorithm or row.provider, row.problem, direction, **own, traced_order=order)

    @property
    def smaller(self) -> Kernel:
        """One that compiles the same: two key heads, fewer queries and keys unless a kernel holds a row."""
        problem = self.problem
        rows, keys = _few(problem.seq_q), _few(problem.seq_kv)
        if ALGORITHMS[self.algorithm].unfused:
            rows, keys = 16, problem.seq_kv
        sizes = {"batch": 1, "heads": 2 * problem.group, "kv_heads": 2, "seq_q": rows, "seq_kv": keys}
        mask = problem.mask.resized(keys, problem.seq_kv)
        return replace(self, problem=replace(problem, **sizes, mask=mask))

    @property
    def options(self) -> dict[str, Any]:
        """What `kernels.attention` is given beside tensors."""
        own = {"algorithm": self.algorithm, "block_q": self.block_q, "block_kv": self.block_kv}
        return options_of(self.problem) | own


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
    torch.set_num_threads(1)
    cuda = torch.cuda.is_available()
    backward = kernel.direction == BACKWARD
    inputs = [tensor.requires_grad_(backward) for tensor in random_inputs(kernel.problem, cuda)]
    with suppress(JobError):
        attempt(lambda: _run(kernel, inputs), cuda)
    return kernel


def _run(kernel: Kernel, inputs) -> None:
    if kernel.traced_order is not None:
        kernels.trace_attention(*inputs, **kernel.options, heavy_first=kernel.traced_order == HEAVY_FIRST)
    given = kernel.warps, kernel.stages
    with kernels.launch_options(*given) if all(given) else nullcontext():
        out = kernels.attention(*inputs, **kernel.options)
    if kernel.direction == BACKWARD:
        out.sum().backward()
