"""Attention of a tile of queries over tiles of keys, one after another, as all variants do it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from engine.trace.memory import Memory
from engine.trace.softmax import falling

Tile = tuple[np.ndarray, np.ndarray, np.ndarray | bool]  # K, V, and which of the keys a query sees


def streamed(
    q: np.ndarray, scale: float, tiles: Iterable[Tile], v_dim: int, weighed: Callable = np.matmul
) -> tuple[np.ndarray, np.ndarray]:
    """O [rows, v_dim] and lse [rows] of q [rows, d], in q's own format; O is 0 where no key is seen.

    weighed: what P and V are multiplied by.
    """
    number = q.dtype.type
    m, total = np.full(len(q), -np.inf, q.dtype), np.zeros(len(q), q.dtype)
    out = np.zeros((len(q), v_dim), q.dtype)
    for k, v, seen in tiles:
        scores = np.where(seen, (q @ k.T) * number(scale), number(-np.inf))
        new = np.maximum(m, scores.max(1, initial=-np.inf))
        alpha, weights = falling(m, new), falling(scores, new[:, None])
        total = total * alpha + weights.sum(1)
        out = out * alpha[:, None] + weighed(weights, v)
        m = new
    some = np.where(total == 0, number(1), total)
    return out / some[:, None], m + np.log(some)


@dataclass(frozen=True)
class Counted:
    """What a schedule computed in float32, and bytes by tensor, as if each number had 16 bits."""

    out: np.ndarray
    read: dict[str, int]
    written: dict[str, int]

    @classmethod
    def of(cls, memory: Memory, out: np.ndarray) -> "Counted":
        """What has moved through a memory so far."""
        ways = memory.read, memory.written
        return cls(out, *({name: way[name] // 2 for name in memory.arrays} for way in ways))


def memory_of(**arrays: np.ndarray) -> Memory:
    """A memory of float32 arrays that counts, and whose chip has room for all."""
    return Memory(arrays, dict.fromkeys(arrays, "float32"), 0, "")
