"""Seconds of the attention kernel on a GPU's share: the existing model, asked for every shape of a round."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from engine.algorithms.ring import step_kernel
from engine.experiment import Experiment
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
    part = replace(problem, seq_q=queries, seq_kv=keys, mask=Mask(causal=causal))
    longest = max(queries, keys)
    if longest > LONGEST:
        fits = replace(
            part, seq_q=max(1, queries * LONGEST // longest), seq_kv=max(1, keys * LONGEST // longest)
        )
        return _modelled(fits, hardware) * _flops(part) / _flops(fits)
    return _modelled(part, hardware)


def _flops(part: Problem) -> int:
    """In closed form, whatever the length; the last query sees all keys."""
    hidden = part.seq_q // 2 if part.mask.causal else 0
    return 4 * part.all_heads * part.head_dim * part.seq_q * (part.seq_kv - hidden)


def _modelled(part: Problem, hardware: str) -> float:
    one = Experiment(part, step_kernel(part, GPUS[hardware]), hardware=hardware)
    return simulate(one.in_own_tiling()).modelled.seconds


def one_gpu_seconds(problem: Problem, hardware: str) -> float:
    """The whole problem on one GPU."""
    return kernel_seconds(problem, hardware, problem.seq_q, problem.seq_kv, problem.mask.causal)
