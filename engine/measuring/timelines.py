"""Calls with every block of threads written down: a plan of them, and how one becomes a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

import numpy as np

from engine.algorithms import FORWARD, algorithm
from engine.experiment import Experiment
from engine.measuring import clock
from engine.measuring.precompile import Kernel
from engine.measuring.trial import Trial
from engine.model.launch import HEAVY_FIRST, NATURAL, launch
from engine.problem.problem import Mask, Problem
from engine.recordings.recording import TracedCall, TracedKernel
from engine.recordings.rows import MODEL_BLOCKS

TRACES = 5  # of a call; the one of median length is kept
UNTRACED = clock.Repeats(5, 20, 0.02)


def call(
    provider: str, seq: int, heads: int = 16, head_dim: int = 128, batch: int = 1, order: str = "", **mask
) -> Kernel:
    """A call in float16; by default its blocks are launched in the kernel's order, and are its own."""
    problem = Problem(batch, heads, heads, seq, seq, head_dim, "float16", Mask(**mask))
    blocks = (None, None) if algorithm(provider).chooses_tiling else MODEL_BLOCKS
    order = order or launch(Experiment(problem, provider)).order
    return Kernel(provider, problem, FORWARD, *blocks, traced_order=order)


def row_of(one: Kernel) -> TracedCall:
    """Its row, before anything was traced."""
    return TracedCall(one.algorithm, one.traced_order, one.problem, one.block_q, one.block_kv)


def plan() -> list[Kernel]:
    """All of them, the most telling first: whole and broken waves, masks, both orders, every kernel."""
    lengths = (1024, 4096, 16384)
    return [
        *(call("flash2", seq) for seq in lengths),
        *(call("flash2", seq, causal=True) for seq in lengths),
        *(call("flash2", seq, causal=True, order=NATURAL) for seq in lengths),
        *(call("flash3", seq) for seq in lengths),
        *(call("flash3", seq, causal=True) for seq in lengths),
        call("flash1", 1024, heads=64, head_dim=64),
        call("flash1", 1024, heads=300, head_dim=64),
        call("flash1", 2048, head_dim=64, causal=True),
        call("standard", 512),
        call("standard", 1024, heads=8),
        call("standard", 2048, heads=2, head_dim=64),
        *(call("flash2", 4096, heads=heads) for heads in (1, 4, 5, 33)),
        *(call("flash2", 8192, heads=heads, causal=True) for heads in (2, 8)),
        call("flash2", 8192, heads=8, causal=True, order=NATURAL),
        call("flash2", 8192, window=1024),
        call("flash2", 8192, window=1024, order=NATURAL),
        *(call("flash2", 4096, head_dim=64, **mask) for mask in ({}, {"causal": True})),
        call("flash2", 2048, batch=8, heads=4),
        *(call("flash3", 4096, heads=heads) for heads in (1, 5)),
        call("flash3", 8192, window=1024),
        *(call("flash3", 4096, head_dim=64, **mask) for mask in ({}, {"causal": True})),
    ]


def traced_row(one: Kernel) -> TracedCall:
    """The row of one call, checked against float64 and traced; or why it has none."""
    from kernels import attention, trace_attention

    row, options = row_of(one), one.options()
    trial = Trial.of(one.problem, cuda=True)
    heavy_first = one.traced_order == HEAVY_FIRST

    def traced_call():
        return trace_attention(*trial.inputs, **options, heavy_first=heavy_first)

    found = trial.checked(lambda *_: lambda: traced_call().out)
    if isinstance(found, str):
        return replace(row, skipped=found)
    times = None
    if one.traced_order == launch(Experiment(one.problem, one.algorithm)).order:
        untraced = {"call": lambda: attention(*trial.inputs, **options)}
        times = clock.in_turns(untraced, UNTRACED, cuda=True)["call"]
    repeats = [_blocks(traced_call) for _ in range(TRACES)]
    repeats.sort(key=lambda kernels: max(int(blocks[:, 2].max()) for blocks in kernels.values()))
    return _filled(row, repeats[len(repeats) // 2], times)


def _blocks(traced_call: Callable) -> dict[str, np.ndarray]:
    """[blocks, 3] of each kernel: SM, start and end in nanoseconds from the first start; the L2 is cold."""
    import torch

    flush = torch.empty(clock.FLUSH_BYTES, dtype=torch.int8, device="cuda")
    flush.zero_()
    flush.zero_()
    kernels = {name: blocks.cpu().numpy() for name, blocks in traced_call().blocks.items()}
    first = min(int(blocks[:, 1].min()) for blocks in kernels.values())
    return {name: blocks - [0, first, first] for name, blocks in kernels.items()}


def _filled(row: TracedCall, kernels: dict[str, np.ndarray], times) -> TracedCall:
    """The row with its kernels, in ticks of the clock as it ticked."""
    import torch

    tick = gcd(*(int(value) for blocks in kernels.values() for value in np.unique(blocks[:, 1:])))
    return replace(
        row,
        sms=torch.cuda.get_device_properties(0).multi_processor_count,
        tick=tick * 1e-9,
        times=times,
        kernels=tuple(traced_kernel(name, blocks, tick) for name, blocks in kernels.items()),
    )


def traced_kernel(name: str, blocks: np.ndarray, tick: int) -> TracedKernel:
    """A kernel's blocks as a recording has them, from [blocks, 3] SM, start and end in nanoseconds."""
    start, length = blocks[:, 1] // tick, (blocks[:, 2] - blocks[:, 1]) // tick
    columns = (blocks[:, 0], np.diff(start, prepend=0), length)
    return TracedKernel(name, *(tuple(column.tolist()) for column in columns))
