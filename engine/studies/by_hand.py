"""Attention on four tokens as on a lecture's board: in one go and in FlashAttention-2's tiles."""

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

    passes = 0

    def read(self) -> np.ndarray:
        self.passes += 1
        return by_hand().scores[ROW]


def online_softmax() -> tuple[np.ndarray, int]:
    """The weights of the row that is followed by online softmax (arXiv 1805.02867), and how often it is read.

    Maximum and sum are carried together, one score after another; then the weights are taken.
    """
    row = _Row()
    tiles = ((score.reshape(1, 1), np.zeros((1, 1)), True) for score in row.read())
    _, lse = streamed(np.ones((1, 1)), 1.0, tiles, 1)
    return np.exp(row.read() - lse), row.passes
