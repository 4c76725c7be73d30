"""Matrices to run attention on: the same on every platform, and with something to see."""

from collections.abc import Sequence

import numpy as np

from engine.problem.dtype import round_to
from engine.problem.heads import kept
from engine.problem.problem import Problem

GROWTH = 2.0  # how much longer the last keys are than the first, beyond 1
SWELLS = 4.5  # waves of key length along the sequence


def make_inputs(problem: Problem, seed: int = 0, heads: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q [heads, seq_q, d], k and v [heads, seq_kv, d or d of V]: float32, rounded to the problem's dtype.

    Those of a file's heads where the problem names them and they fit it, else drawn ones.

    Scores scaled by d ** -0.5 have unit spread; keys grow longer along the sequence, in waves, so that the
    running maximum of most rows rises in several steps instead of settling in the first block.
    """
    if fits(problem):
        return tuple(round_to(array, problem.dtype) for array in _of_file(problem, heads))
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
    v = k[..., : problem.v_dim] if problem.latent else v
    return tuple(round_to(array, problem.dtype) for array in (q, k, v))


def fits(problem: Problem) -> bool:
    """Whether its numbers are those of a file's heads: as many tokens there or more, and its head dims."""
    if problem.latent or (found := kept(problem.inputs)) is None:
        return False
    q, k, v = (array.shape for array in (found[0].q, found[0].k, found[0].v))
    lengths = problem.seq_q <= q[1] and problem.seq_kv <= k[1]
    return lengths and (problem.head_dim, problem.v_dim) == (q[2], v[2])


def tokens_of(problem: Problem) -> tuple[str, ...]:
    """The text of each key; none where the numbers are drawn, or their file has none."""
    if not fits(problem):
        return ()
    found, _ = kept(problem.inputs)
    whole = found.q.shape[1] == found.k.shape[1]
    return found.tokens[: problem.seq_kv] if whole else found.tokens[-problem.seq_kv :]


def written(tokens: Sequence[str]) -> list[str]:
    """Tokens as they are written beside a picture: without the space before a word, and a space as a sign."""
    return [token.strip() or "␣" for token in tokens]


def _of_file(problem: Problem, heads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A file's heads from the one that is named on: the first tokens, or the last where queries are fewer."""
    found, first = kept(problem.inputs)
    chosen = [(first + head) % len(found.q) for head in range(heads)]
    keys, whole = [head // found.group for head in chosen], found.q.shape[1] == found.k.shape[1]
    last_q = max(problem.seq_q, problem.seq_kv) if whole else found.q.shape[1]
    last_k = problem.seq_kv if whole else found.k.shape[1]
    q = found.q[chosen, last_q - problem.seq_q : last_q] * np.float32(found.scale / problem.scale)
    return q, *(array[keys, last_k - problem.seq_kv : last_k] for array in (found.k, found.v))


def make_output_gradient(problem: Problem, seed: int = 0, heads: int = 1) -> np.ndarray:
    """dO [heads, seq_q, d of V]: float32, rounded to the problem's dtype, of unit spread."""
    generator = np.random.Generator(np.random.PCG64((seed, 1)))  # not the numbers of make_inputs
    shape = (heads, problem.seq_q, problem.v_dim)
    return round_to(generator.standard_normal(shape, dtype=np.float32), problem.dtype)
