"""Seconds of the attention kernel on a GPU's share: the existing model, asked for every shape of a round.

A call is one of many in a row, so that its seconds are at the clock that the first begins with: `sustained`
says how long all of them take.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from engine.algorithms.ring import step_kernel
from engine.experiment import Experiment
from engine.model.power import sustained, unsustained
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.problem.problem import Mask, Problem

LONGEST = 2**17  # rows beyond which a kernel's rate no longer changes
BACKWARD = 2.85  # times the forward pass: one H200, 131,072 causal tokens, 16 heads, head dimension 128


@lru_cache(maxsize=4096)
def kernel_seconds(problem: Problem, hardware: str, queries: int, keys: int, causal: bool) -> float:
    """Of one call: so many of a problem's queries on so many of its keys, all its heads; the last aligned."""
    if not queries or not keys:
        return 0.0
    part = replace(problem, seq_q=queries, seq_kv=keys, mask=Mask(causal, problem.mask.window))
    if max(queries, keys) > LONGEST:
        fits = _shortened(part)
        return _modelled(fits, hardware) * _flops(part) / _flops(fits)
    return _modelled(part, hardware)


def _shortened(part: Problem) -> Problem:
    """Its lengths by one factor, down to the longest; or fewer queries that see as much through a window."""
    window = part.mask.window
    if window is not None and window <= LONGEST:
        rows = min(part.seq_q, LONGEST)
        return replace(part, seq_q=rows, seq_kv=rows + part.offset)
    longest = window or max(part.seq_q, part.seq_kv)
    rows, keys = (max(1, each * LONGEST // longest) for each in (part.seq_q, part.seq_kv))
    shorter = replace(part, seq_q=rows, seq_kv=keys, mask=Mask(part.mask.causal, window and LONGEST))
    return _shortened(shorter) if window else shorter


def _flops(part: Problem) -> int:
    """In closed form, whatever the length; the last query sees all keys, or its window."""
    if part.mask.window is not None:
        seen = seen_in_window(part.seq_q, part.offset, part.mask.window)
    else:
        seen = part.seq_q * (part.seq_kv - (part.seq_q // 2 if part.mask.causal else 0))
    return 4 * part.all_heads * part.head_dim * seen


def seen_in_window(queries: int, before: int, window: int) -> int:
    """Pairs of a query and a key that it sees: so many queries in a row, with so many keys before them."""
    short = min(max(window - 1 - before, 0), queries)  # the first, which see all there is
    return short * before + short * (short + 1) // 2 + (queries - short) * window


def _modelled(part: Problem, hardware: str) -> float:
    one = Experiment(part, step_kernel(part, GPUS[hardware]), hardware=hardware)
    return unsustained(simulate(one.in_own_tiling()).modelled.seconds)


def one_gpu_seconds(problem: Problem, hardware: str, backward: bool = False) -> float:
    """The whole problem on one GPU, in a pass."""
    causal = not problem.mask.looks_ahead
    forward = kernel_seconds(problem, hardware, problem.seq_q, problem.seq_kv, causal)
    return sustained(forward * (BACKWARD if backward else 1))


def stretched(seconds: float) -> float:
    """How many times as long a GPU's calls take that take so many together."""
    return sustained(seconds) / seconds if seconds else 1.0
