"""Attention on four tokens as on a lecture's board: in one go and in FlashAttention-2's tiles."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from engine.algorithms import ALGORITHMS
from engine.model.launch import Launch
from engine.problem.hardware import GPUS
from engine.problem.problem import Problem, Tiling
from engine.schedule.step import Operation, Tensor
from engine.trace.execute import Executor, Trace
from engine.trace.streamed import streamed

TOKENS, BLOCK = 4, 2
Q = ((1, 0), (0, 1), (1, 1), (1, -2))
K = ((1, 0), (0, 1), (1, 2), (2, 1))
V = ((1, 0), (0, 1), (2, 0), (0, 2))
ROW = 0  # the row of scores that is followed alone
PROBLEM = Problem(heads=1, kv_heads=1, seq_q=TOKENS, seq_kv=TOKENS, head_dim=2, dtype="float32")
TILING = Tiling(block_q=BLOCK, block_kv=BLOCK)


class Visit(NamedTuple):
    scores: np.ndarray  # [2, 2] S
    weights: np.ndarray  # [2, 2] exp(S - m)
    m: np.ndarray  # [2], as l and alpha are
    l: np.ndarray  # noqa: E741 - the field's name
    alpha: np.ndarray
    out: np.ndarray  # [2, d] O so far, not yet divided by l


class ByHand(NamedTuple):
    """The four tokens, all at once in float64 and tile by tile in float32."""

    q: np.ndarray  # [4, d], as k and v are
    k: np.ndarray
    v: np.ndarray
    scores: np.ndarray  # [4, 4] S
    weights: np.ndarray  # [4, 4] P
    out: np.ndarray  # [4, d] O in one go
    visits: list[Visit]  # the tiles in the order of FlashAttention-2
    tiled: np.ndarray  # [4, d] O of the tiles

    @property
    def difference(self) -> float:
        return float(np.abs(self.tiled - self.out).max())

    def of_row(self, row: int = ROW) -> list[Visit]:
        many = TOKENS // BLOCK
        return self.visits[row // BLOCK * many : (row // BLOCK + 1) * many]


class _Watched(Executor):
    """The executor, with each tile written down as it is visited."""

    def __init__(self, run: Launch, *tensors: np.ndarray):
        super().__init__(run, *tensors)
        self.seen: list[Visit] = []

    def take(self, phase: int, operation: int, tensor: int, query: int, key: int) -> None:
        super().take(phase, operation, tensor, query, key)
        if operation == Operation.SCORES:
            self.scored = self.tiles[Tensor.S].copy()
        elif operation == Operation.ACCUMULATE:
            m, total = self.tiles[Tensor.STATISTICS].T.copy()
            weights, out = self.tiles[Tensor.S].copy(), self.tiles[Tensor.O].copy()
            self.seen.append(Visit(self.scored, weights, m, total, self.alpha, out))


@lru_cache(maxsize=1)
def by_hand() -> ByHand:
    q, k, v = (np.array(matrix, np.float64) for matrix in (Q, K, V))
    scores = q @ k.T * PROBLEM.scale
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    trace, seen = watched("flash2")
    return ByHand(q, k, v, scores, weights, weights @ v, seen, trace.out)


def watched(algorithm: str) -> tuple[Trace, list[Visit]]:
    launch = Launch.of(ALGORITHMS[algorithm], PROBLEM, TILING, GPUS["h200"])
    run = _Watched(launch, *(np.array(matrix, np.float32) for matrix in (Q, K, V)))
    return run.run(), run.seen


class _Row:
    """A row of scores that counts how often it is read."""

    def __init__(self, scores: np.ndarray):
        self.scores, self.passes = scores, 0

    def read(self) -> np.ndarray:
        self.passes += 1
        return self.scores


def safe_weights(row: _Row) -> np.ndarray:
    """Softmax with the maximum subtracted: three passes, for the maximum, the sum and the weights."""
    m = row.read().max()
    total = np.exp(row.read() - m).sum()
    return np.exp(row.read() - m) / total


def online_weights(row: _Row) -> np.ndarray:
    """Softmax with maximum and sum carried together (arXiv 1805.02867): two passes."""
    _, lse = _carried(row.read(), np.zeros((len(row.scores), 1)))
    return np.exp(row.read() - lse)


def online_output(row: _Row) -> np.ndarray:
    """The row's O, accumulated along with maximum and sum (arXiv 2205.14135): one pass, no weights."""
    return _carried(row.read(), by_hand().v)[0]


def _carried(scores: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """O and lse, one score after another."""
    tiles = ((score.reshape(1, 1), value[None], True) for score, value in zip(scores, v, strict=True))
    out, lse = streamed(np.ones((1, 1)), 1.0, tiles, v.shape[1])
    return out[0], lse[0]


def passes(way: Callable[[_Row], np.ndarray]) -> int:
    """How often one of these three reads the row that is followed."""
    row = _Row(by_hand().scores[ROW])
    way(row)
    return row.passes
