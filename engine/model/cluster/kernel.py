"""Seconds of the attention kernel on a GPU's share: the existing model, asked for every shape of a round.

A call is one of many in a row: its seconds are at the clock that the first begins with, and `lasting` says
how long all of them take. It is taken to hold where a GPU waits for transfers between its calls, too.
"""

from dataclasses import replace
from functools import lru_cache

from engine.algorithms.ring import step_kernel
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.hardware import GPUS
from engine.problem.problem import Mask, Problem

LONGEST = 2**17  # rows beyond which a kernel's rate no longer changes
BACKWARD = 2.85  # times the forward pass: one H200, 131,072 causal tokens, 16 heads, head dimension 128


def kernel_seconds(problem: Problem, hardware: str, queries: int, keys: int, causal: bool) -> float:
    """Of one call: so many of a problem's queries on so many of its keys, all its heads; the last aligned."""
    return _call(_part(problem, queries, keys, causal), hardware)[0]


def lasting(problem: Problem, hardware: str, queries: int, keys: int, causal: bool, seconds: float) -> float:
    """Seconds of a GPU's calls, such as this one, that take so many together at the clock of the first."""
    limited = _call(_part(problem, queries, keys, causal), hardware)[1]
    return GPUS[hardware].reached.sustained(seconds) if limited else seconds


def _part(problem: Problem, queries: int, keys: int, causal: bool) -> Problem:
    """What a call computes."""
    return replace(problem, seq_q=queries, seq_kv=keys, mask=Mask(causal))


@lru_cache(maxsize=4096)
def _call(part: Problem, hardware: str) -> tuple[float, bool]:
    """Its seconds, and whether the card's power limits many of them."""
    fits = _shortened(part) if max(part.seq_q, part.seq_kv) > LONGEST else part
    one = Experiment(fits, step_kernel(fits, GPUS[hardware]), hardware=hardware)
    found = simulate(one.in_own_tiling()).modelled
    seconds = GPUS[hardware].reached.unsustained(found.seconds) if found.limited else found.seconds
    return seconds * _flops(part) / _flops(fits), found.limited


def _shortened(part: Problem) -> Problem:
    """Its lengths by one factor, down to the longest."""
    longest = max(part.seq_q, part.seq_kv)
    rows, keys = (max(1, each * LONGEST // longest) for each in (part.seq_q, part.seq_kv))
    return replace(part, seq_q=rows, seq_kv=keys)


def _flops(part: Problem) -> int:
    """In closed form, whatever the length; the last query sees all keys."""
    seen = part.seq_q * (part.seq_kv - (part.seq_q // 2 if part.mask.causal else 0))
    return 2 * part.all_heads * (part.head_dim + part.v_dim) * seen


def one_gpu_seconds(problem: Problem, hardware: str, backward: bool = False) -> float:
    """The whole problem on one GPU, in a pass."""
    call = problem, hardware, problem.seq_q, problem.seq_kv, not problem.mask.looks_ahead
    return lasting(*call, kernel_seconds(*call) * (BACKWARD if backward else 1))
