"""Chosen keys: which blocks a query visits, what weight that loses, and what it moves.

Native Sparse Attention (NSA, arXiv 2502.11089) has three branches: keys compressed block by block, blocks
chosen by the weights on these, and a window. Here the mean of a block's keys stands in for a trained
compression, and its blocks are those that are chosen from. The heads that share a key head share their
choice; the first block and the query's own are always in it.
DeepSeek Sparse Attention (DSA, arXiv 2512.02556) chooses single tokens by an indexer: 64 small heads in FP8,
the positive parts of whose products are added up. Here a random projection stands in for the trained one.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from engine.experiment import Experiment
from engine.problem.dtype import round_e4m3
from engine.problem.heads import kept
from engine.problem.inputs import fits, make_inputs
from engine.studies.beyond import text_heads
from engine.trace.softmax import falling

ALL, WINDOW, MEANS, BEST, INDEXER, TOKENS = "all", "window", "means", "best", "indexer", "tokens"
RULES = (WINDOW, MEANS, BEST, INDEXER, TOKENS)
MOST_KEYS, MOST_HEADS = 2048, 8
SIDE = 32  # blocks of the drawn grid
INDEX_DIM = 32
# of the kernel that is compared in bytes: NSA's group, blocks and choice, and flash3's rows
GROUP, BLOCK, CHOSEN, RECENT, TILE_ROWS, HEAD_DIM, BYTES = 16, 64, 16, 512, 128, 128, 2
LENGTHS = tuple(2**power for power in range(10, 21))


@dataclass(frozen=True)
class Subject:
    """Numbers to choose on: the query heads of one key head, causal."""

    q: np.ndarray  # [heads, keys, d] float32, scaled, a query a key
    # k, v: [keys, d] and [keys, d of V]
    k: np.ndarray
    v: np.ndarray
    block: int  # keys of a block
    real: bool  # whether they are a file's
    every: bool = False  # whether every query is looked at, and not only the last of each block

    @property
    def rows(self) -> np.ndarray:
        return np.arange(len(self.k)) if self.every else np.arange(self.block - 1, len(self.k), self.block)


@lru_cache(maxsize=8)
def subject(experiment: Experiment) -> Subject:
    """The first key head of a scenario's numbers, at most MOST_KEYS of its keys."""
    problem = experiment.problem
    keys = max(SIDE, min(problem.seq_kv, MOST_KEYS) // SIDE * SIDE)
    one = experiment.changed(batch=1, seq=keys, seq_kv=keys)
    found = kept(problem.inputs) if fits(one.problem) else None
    heads = min(MOST_HEADS, problem.group - (found[1] % problem.group if found else 0))
    q, k, v = make_inputs(one.problem, heads=heads)
    return Subject(q * np.float32(problem.scale), k[0], v[0], keys // SIDE, found is not None)


def weights(numbers: Subject) -> np.ndarray:
    """[heads, rows, keys] float64: each looked-at query's weights, causal."""
    rows = numbers.rows
    scores = numbers.q[:, rows].astype(np.float64) @ numbers.k.T.astype(np.float64)
    return softmax(scores, np.arange(len(numbers.k)) <= rows[:, None])


def softmax(scores: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Along the last axis, over what is seen; 0 where nothing is."""
    hidden = np.where(seen, scores, -np.inf)
    found = falling(hidden, hidden.max(-1, keepdims=True))
    return found / np.maximum(found.sum(-1, keepdims=True), np.finfo(np.float64).tiny)


def in_blocks(values: np.ndarray, block: int) -> np.ndarray:
    return values.reshape(*values.shape[:-1], -1, block).sum(-1)


def importance(numbers: Subject, rule: str) -> np.ndarray:
    """[rows, blocks or keys] by which a rule chooses, over all heads; -inf: not to be seen."""
    rows, keys = numbers.rows, np.arange(len(numbers.k))
    seen = keys <= rows[:, None]
    if rule == INDEXER:  # heads and key projected at random, in e4m3; positive parts added up
        d = numbers.k.shape[1]
        project = np.random.Generator(np.random.PCG64(7)).standard_normal((d, min(INDEX_DIM, d))) * d**-0.5
        q = round_e4m3(numbers.q[:, rows] @ project * d**0.5)
        scored = np.maximum(0, q @ round_e4m3(numbers.k @ project).T).sum(0)
        return np.where(seen, scored, -np.inf)
    if rule == TOKENS:
        return np.where(seen, weights(numbers).sum(0), -np.inf)
    blocks = np.arange(len(keys) // numbers.block)
    there = blocks <= rows[:, None] // numbers.block
    if rule == WINDOW:
        found = np.broadcast_to(blocks, there.shape).astype(np.float64)
    elif rule == MEANS:
        found = compressed(numbers)
    else:
        found = in_blocks(weights(numbers), numbers.block).sum(0)
    if rule != WINDOW:
        found[:, 0] = np.inf
    found = np.where(blocks == rows[:, None] // numbers.block, np.inf, found)
    return np.where(there, found, -np.inf)


def chosen(numbers: Subject, rule: str, keys: int) -> np.ndarray:
    """[rows, keys of all] bool: what each looked-at query visits of so many keys."""
    found = importance(numbers, rule)
    wide = len(numbers.k) // found.shape[1]
    count = max(1, min(found.shape[1], keys // wide))
    order = np.argsort(-found, axis=1, kind="stable")[:, :count]
    visited = np.zeros(found.shape, bool)
    np.put_along_axis(visited, order, True, axis=1)
    return np.repeat(visited & (found > -np.inf), wide, 1) & (
        np.arange(len(numbers.k)) <= numbers.rows[:, None]
    )


@lru_cache(maxsize=64)
def lost(experiment: Experiment | None, rule: str) -> dict[int, float]:
    """By keys visited, the mean share of weight that a rule leaves out; None: of the small model."""
    if experiment is not None:
        return _lost(subject(experiment), rule)
    found = [_lost(numbers, rule) for numbers in on_text()]
    return {count: sum(each[count] for each in found) / len(found) for count in found[0]}


@lru_cache(maxsize=1)
def on_text() -> tuple[Subject, ...]:
    """The small model's key heads, on the last tokens of a passage that make whole blocks."""
    whole = [(q, k, v, len(k) // SIDE * SIDE) for q, k, v in text_heads()]
    return tuple(Subject(q[:, -n:], k[-n:], v[-n:], n // SIDE, True) for q, k, v, n in whole)


def half_weight() -> tuple[float, int]:
    """Keys with half of the last query's weight, in the mean over heads of the small model; of so many."""
    found = [np.sort(weights(numbers)[:, -1])[:, ::-1].cumsum(1) for numbers in on_text()]
    counts = [(each < 0.5).sum(1).mean() + 1 for each in found]
    return float(np.mean(counts)), found[0].shape[1]


def _lost(numbers: Subject, rule: str) -> dict[int, float]:
    found = importance(numbers, rule)
    wide = len(numbers.k) // found.shape[1]
    order = np.argsort(-found, axis=1, kind="stable")
    visited = np.take_along_axis(in_blocks(weights(numbers).mean(0), wide), order, 1).cumsum(1).mean(0)
    counts = [numbers.block * 2**power for power in range(SIDE.bit_length())]
    return {count: float(1 - visited[count // wide - 1]) for count in counts}


def grids(experiment: Experiment, blocks: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], int]:
    """SIDE x SIDE of query and key blocks, of each block of queries its last, which visits so many blocks.

    From 0 to 1 the square roots of all weights, ALL, and of those on compressed keys, MEANS; by rule what is
    visited, bool, with a window of half as many, ALL; and blocks that have half of the last query's weight.
    """
    numbers = subject(experiment)
    weight = in_blocks(weights(numbers).mean(0), numbers.block)
    shades = {ALL: weight, MEANS: compressed(numbers)}
    shades = {name: np.sqrt(each / each.max(1, keepdims=True)) for name, each in shades.items()}
    visited = {
        rule: in_blocks(chosen(numbers, rule, blocks * numbers.block), numbers.block) > 0
        for rule in (WINDOW, MEANS, BEST)
    }
    recent = np.tri(SIDE, dtype=bool) & ~np.tri(SIDE, k=-(blocks // 2), dtype=bool)
    visited[ALL] = visited[MEANS] | recent
    half = int(np.searchsorted(np.cumsum(-np.sort(-weight[-1])), 0.5)) + 1
    return shades, visited, half


def compressed(numbers: Subject) -> np.ndarray:
    """[rows, blocks] float64: the weights on the means of blocks of keys, added up over the heads."""
    means = numbers.k.reshape(-1, numbers.block, numbers.k.shape[1]).mean(1, dtype=np.float64)
    there = np.arange(len(means)) <= numbers.rows[:, None] // numbers.block
    return softmax(numbers.q[:, numbers.rows] @ means.T, there).sum(0)


def shared(numbers: Subject, keys: int, queries: int = 64) -> tuple[float, int]:
    """Blocks that neighbouring queries name together by MEANS, in the mean of tiles; and that one names."""
    count = keys // numbers.block
    named = in_blocks(chosen(replace(numbers, every=True), MEANS, keys).astype(int), numbers.block) > 0
    tiles = [named[first : first + queries] for first in range(0, len(named), queries)]
    return float(np.mean([tile.any(0).sum() for tile in tiles])), count


@lru_cache(maxsize=128)
def moved(way: str, length: int) -> dict[str, float]:
    """Of a query and a key head, in the mean of a causal prompt: keys that its tiles "read", and "scores".

    ALL: in tiles of TILE_ROWS queries of a head; BEST: chosen blocks, of a group; MEANS: all branches of NSA.
    """
    at = np.arange(length)
    if way == ALL:
        last = np.minimum(length, (at // TILE_ROWS + 1) * TILE_ROWS)  # of its tile, which TILE_ROWS share
        shared = np.minimum(TILE_ROWS, length - at // TILE_ROWS * TILE_ROWS)
        return {"read": GROUP * float((last / shared).mean()), "scores": GROUP * (length + 1) / 2}
    keys = np.minimum(at // BLOCK, CHOSEN - 1) * BLOCK + at % BLOCK + 1
    if way == MEANS:  # compressed keys of whole blocks, and the window too
        keys = keys + (at + 1) // BLOCK + np.minimum(at + 1, RECENT)
    return {"read": float(keys.mean()), "scores": GROUP * float(keys.mean())}


def dsa_flops(keys: int) -> tuple[int, int, int]:
    """Of a decoded token in a layer of DeepSeek-V3.2: attention to all keys, the indexer, and to the chosen.

    128 heads over the latent; 64 heads of 128 numbers that score every key; 2,048 keys.
    """
    latent, index, most = 2 * 128 * (576 + 512), 2 * 64 * 128, 2048
    return latent * keys, index * keys, latent * min(keys, most)


@lru_cache(maxsize=2)
def crossing(what: str) -> int:
    """The shortest length, in steps of TILE_ROWS, at which chosen blocks take less than all keys."""
    lengths = range(TILE_ROWS, LENGTHS[-1], TILE_ROWS)
    return next(each for each in lengths if moved(BEST, each)[what] < moved(ALL, each)[what])
