"""Attention on four tokens as on a lecture's board: in one go and in FlashAttention-2's tiles."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from engine.algorithms import ALGORITHMS
from engine.model.launch import Launch
from engine.problem.hardware import GPUS
from engine.problem.problem import Problem, Tiling
from engine.trace.execute import Executor, Trace
from engine.trace.memory import streamed

TOKENS, BLOCK = 4, 2
Q = ((1, 0), (0, 1), (1, 1), (1, -2))
K = ((1, 0), (0, 1), (1, 2), (2, 1))
V = ((1, 0), (0, 1), (2, 0), (0, 2))
ROW = 0  # the row of scores that is followed alone
PROBLEM = Problem(heads=1, kv_heads=1, seq_q=TOKENS, seq_kv=TOKENS, head_dim=2, dtype="float32")
TILING = Tiling(block_q=BLOCK, block_kv=BLOCK)


class ByHand(NamedTuple):
    """The four tokens, all at once in float64 and tile by tile in float32."""

    q: np.ndarray  # [4, d], as k and v are
    k: np.ndarray
    v: np.ndarray
    scores: np.ndarray  # [4, 4] S
    weights: np.ndarray  # [4, 4] P
    out: np.ndarray  # [4, d] O in one go
    tiled: np.ndarray  # [4, d] O of the tiles in the order of FlashAttention-2
    # m, l, alpha: [2] of ROW after each of its tiles
    m: np.ndarray
    l: np.ndarray  # noqa: E741 - the field's name
    alpha: np.ndarray

    @property
    def difference(self) -> float:
        return float(np.abs(self.tiled - self.out).max())

    @property
    def first_weights(self) -> np.ndarray:
        """[2] exp(s - m) of the row's first tile, relative to the maximum of that alone."""
        return np.exp(self.scores[ROW, :BLOCK] - self.m[0])


@lru_cache(maxsize=1)
def by_hand() -> ByHand:
    q, k, v = (np.array(matrix, np.float64) for matrix in (Q, K, V))
    scores = q @ k.T * PROBLEM.scale
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    trace = in_tiles("flash2")
    of_row = (each[ROW // BLOCK, :, ROW % BLOCK] for each in (trace.m, trace.l, trace.alpha))
    return ByHand(q, k, v, scores, weights, weights @ v, trace.out, *of_row)


def in_tiles(algorithm: str) -> Trace:
    run = Launch.of(ALGORITHMS[algorithm], PROBLEM, TILING, GPUS["h200"])
    return Executor(run, *(np.array(matrix, np.float32) for matrix in (Q, K, V))).run()


def online_softmax() -> tuple[np.ndarray, int]:
    """The weights of the row that is followed by online softmax (arXiv 1805.02867), and how often it is read.

    Maximum and sum are carried together, one score after another; then the weights are taken.
    """
    passes = []

    def read() -> np.ndarray:
        passes.append(ROW)
        return by_hand().scores[ROW]

    tiles = ((score.reshape(1, 1), np.zeros((1, 1))) for score in read())
    _, lse = streamed(np.ones((1, 1)), tiles, 1)
    return np.exp(read() - lse), len(passes)
