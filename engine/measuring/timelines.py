"""Calls with every block of threads written down, and how one becomes a row."""

from collections.abc import Callable
from dataclasses import replace
from math import gcd

import numpy as np

from engine.experiment import Experiment
from engine.measuring import clock
from engine.measuring.libraries import kernels, torch
from engine.measuring.precompile import Kernel
from engine.measuring.trial import Trial
from engine.model.launch import HEAVY_FIRST, launch
from engine.recordings.recording import TracedCall, TracedKernel

TRACES = 5  # of a call; the one of median length is kept
UNTRACED = clock.Repeats(5, 20, 0.02)


def traced_row(row: TracedCall) -> TracedCall:
    """The row of one call, checked against float64 and traced; or why it has none."""
    options, trial = Kernel.of_row(row).options, Trial.of(row.problem, cuda=True)
    heavy_first = row.order == HEAVY_FIRST

    def traced_call():
        return kernels.trace_attention(*trial.inputs, **options, heavy_first=heavy_first)

    found = trial.checked(lambda *_: lambda: traced_call().out)
    if isinstance(found, str):
        return replace(row, skipped=found)
    times = None
    if row.order == launch(Experiment(row.problem, row.provider)).order:
        untraced = {"call": lambda: kernels.attention(*trial.inputs, **options)}
        times = clock.in_turns(untraced, UNTRACED, cuda=True)["call"]
    repeats = [_blocks(traced_call) for _ in range(TRACES)]
    repeats.sort(key=lambda one: max(int(blocks[:, 2].max()) for blocks in one.values()))
    return _filled(row, repeats[len(repeats) // 2], times)


def _blocks(traced_call: Callable) -> dict[str, np.ndarray]:
    """[blocks, 3] of each kernel: SM, start and end in nanoseconds from the first start; the L2 is cold."""
    flush = torch.empty(clock.FLUSH_BYTES, dtype=torch.int8, device="cuda")
    flush.zero_()
    flush.zero_()
    found = {name: blocks.cpu().numpy() for name, blocks in traced_call().blocks.items()}
    first = min(int(blocks[:, 1].min()) for blocks in found.values())
    return {name: blocks - [0, first, first] for name, blocks in found.items()}


def _filled(row: TracedCall, blocks: dict[str, np.ndarray], times) -> TracedCall:
    """The row with its kernels, in ticks of the clock as it ticked."""
    tick = gcd(*(int(value) for own in blocks.values() for value in np.unique(own[:, 1:])))
    kernels = tuple(traced_kernel(name, own, tick) for name, own in blocks.items())
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    return replace(row, sms=sms, tick=tick * 1e-9, times=times, kernels=kernels)


def traced_kernel(name: str, blocks: np.ndarray, tick: int) -> TracedKernel:
    """A kernel's blocks as a recording has them, from [blocks, 3] SM, start and end in nanoseconds."""
    start, length = blocks[:, 1] // tick, (blocks[:, 2] - blocks[:, 1]) // tick
    columns = (blocks[:, 0], np.diff(start, prepend=0), length)
    return TracedKernel(name, *(tuple(column.tolist()) for column in columns))
