"""Gated linear attention: a state of fixed size in the place of the cache, and its schedule in chunks.

S_t = g_t S_(t-1) + k_t v_t^T and o_t = S_t^T q_t, with a gate g_t from 0 to 1 a token, as in Mamba-2 (arXiv
2405.21060) and, with a gate a column, Gated Linear Attention (GLA, arXiv 2312.06635). Gated DeltaNet (arXiv
2412.06464) takes out of S what it holds for k_t before it adds v_t. A chunk of tokens is computed as
attention without a softmax, plus what the state before it gives: products of matrices for tensor cores.
"""

from functools import lru_cache

import numpy as np

from engine.problem.gpu import Gpu
from engine.studies.beyond import Cost
from engine.studies.block_scales import apart
from engine.trace.memory import Memory

HEAD_DIM, CHUNK, BYTES, STATE_BYTES = 128, 64, 2, 4  # of a number of Q, K, V and O; of S
LENGTHS = tuple(2**power for power in range(6, 18))
STORED = tuple(2**power for power in range(2, 12))
SHARP = 16.0  # the score of a key with itself
GROUP = 8  # query heads on a key head, whose cache is compared too


def recurrent(q, k, v, gates) -> np.ndarray:
    """[tokens, d of V] float64, a token at a time."""
    state, out = np.zeros((k.shape[1], v.shape[1])), np.empty(v.shape)
    for token in range(len(q)):
        state = np.exp(np.float64(gates[token])) * state + np.outer(k[token], v[token]).astype(np.float64)
        out[token] = q[token].astype(np.float64) @ state
    return out


def execute(q, k, v, gates, chunk: int = CHUNK) -> tuple[Memory, np.ndarray]:
    """The same by chunks: the memory, with O, and the last state, which stays on the chip in float32."""
    arrays = {"Q": q, "K": k, "V": v, "gates": gates, "O": np.zeros_like(v)}
    memory = Memory(arrays, dict.fromkeys(arrays, "float16"))
    state = np.zeros((k.shape[1], v.shape[1]), np.float32)
    for first in range(0, len(q), chunk):
        rows = (slice(first, min(first + chunk, len(q))),)
        queries, keys, values, logs = (memory.load(name, rows) for name in ("Q", "K", "V", "gates"))
        since = np.cumsum(logs)[:, None]  # of the state before the chunk, at each token
        within = np.exp(np.where(np.tri(len(logs), dtype=bool), since - since.T, -np.inf))
        out = (queries @ keys.T * within) @ values + (queries * np.exp(since)) @ state
        state = np.exp(since[-1]) * state + (keys * np.exp(since[-1] - since)).T @ values
        memory.store("O", rows, out)
    return memory, state


def prompt(tokens: int, linear: bool, dim: int = HEAD_DIM, chunk: int = CHUNK) -> Cost:
    """A whole prompt of one head, causal: linear in whole chunks, or attention over half of its square."""
    tensors = 4 * tokens * dim * BYTES
    if not linear:
        return Cost(tensors // 2, tensors, 2 * tokens * (tokens + 1) * dim)
    chunks = -(-tokens // chunk)
    each = 4 * chunk * chunk * dim + 4 * chunk * dim * dim
    return Cost(dim * dim * STATE_BYTES, tensors + tokens * BYTES, chunks * each)


def decoded(tokens: int, linear: bool, group: int = 1, dim: int = HEAD_DIM) -> Cost:
    """One more token after so many: the state read and written, or a query head's share of the cache read."""
    kept = dim * dim * STATE_BYTES if linear else 2 * tokens * dim * BYTES // group
    return Cost(kept, kept * (1 + linear), 4 * dim * (dim if linear else tokens))


def meets(gpu: Gpu, group: int | None = None) -> int:
    """The shortest length from which linear takes less time, at best: a prompt or, by a group, decoding."""

    def seconds(tokens: int, linear: bool) -> float:
        found = prompt(tokens, linear) if group is None else decoded(tokens, linear, group)
        return found.seconds(gpu)

    return next(tokens for tokens in range(1, 2**20) if seconds(tokens, True) < seconds(tokens, False))


@lru_cache(maxsize=2)
def recalled(dim: int = HEAD_DIM, seed: int = 0) -> dict[str, dict[int, float]]:
    """By the keys stored, how wrong the value is that a key gives back: of a state, and of attention.

    Root mean square difference over that of the values, which were stored with keys drawn on a sphere.
    """
    draw = np.random.Generator(np.random.PCG64(seed)).standard_normal
    found: dict[str, dict[int, float]] = {"state": {}, "attention": {}}
    for count in STORED:
        keys, values = draw((count, dim)), draw((count, dim))
        keys /= np.sqrt((keys**2).sum(1, keepdims=True))
        asked = slice(0, min(count, 64))
        scores = keys[asked] @ keys.T
        weights = np.exp(SHARP * (scores - 1))
        given = scores @ values, weights @ values / weights.sum(1)[:, None]
        for off, each in zip(found.values(), given, strict=True):
            off[count] = apart(each, values[asked])
    return found
