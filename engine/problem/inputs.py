"""Matrices to run attention on: the same on every platform, and with something to see."""

import numpy as np

from engine.problem.dtype import round_to
from engine.problem.problem import Problem

GROWTH = 2.0  # how much longer the last keys are than the first, beyond 1
SWELLS = 4.5  # waves of key length along the sequence


def make_inputs(problem: Problem, seed: int = 0, heads: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q [heads, seq_q, d], k and v [heads, seq_kv, d or d of V]: float32, rounded to the problem's dtype.

    Scores scaled by d ** -0.5 have unit spread; keys grow longer along the sequence, in waves, so that the
    running maximum of most rows rises in several steps instead of settling in the first block.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    q, k, v = (
        generator.standard_normal((heads, *size), dtype=np.float32)
        for size in (
            (problem.seq_q, problem.head_dim),
            (problem.seq_kv, problem.head_dim),
            (problem.seq_kv, problem.v_dim),
        )
    )
    # plain arithmetic only: a sine differs in its last bit from one platform's library to the next
    along = (np.arange(problem.seq_kv, dtype=np.float32) / problem.seq_kv)[:, None]
    k *= 1 + GROWTH * along * np.abs(2 * ((SWELLS * along) % 1) - 1)
    return tuple(round_to(array, problem.dtype) for array in (q, k, v))


def make_output_gradient(problem: Problem, seed: int = 0, heads: int = 1) -> np.ndarray:
    """dO [heads, seq_q, d of V]: float32, rounded to the problem's dtype, of unit spread."""
    generator = np.random.Generator(np.random.PCG64((seed, 1)))  # not the numbers of make_inputs
    shape = (heads, problem.seq_q, problem.v_dim)
    return round_to(generator.standard_normal(shape, dtype=np.float32), problem.dtype)
