"""Loop bounds of a mask, in one place: which tiles are skipped, partial and full, seen from either side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.problem.problem import Problem, Tiling

MOST_LISTED = 2**17  # query blocks that stand one by one


def blocks(length, block: int):
    """How many blocks cover a length (or each of an array of lengths)."""
    return -(-length // block)


def block_rows(length: int, block: int) -> np.ndarray:
    """[blocks] int64: rows in every block; the last may be ragged."""
    rows = np.full(blocks(length, block), block, np.int64)
    rows[-1] = length - (len(rows) - 1) * block
    return rows


def visible_keys(problem: Problem, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and one past the last key that query rows see, [rows] each; equal where a row sees none."""
    position = problem.positions(np.asarray(rows, np.int64))
    low, high = document_of(problem, position)
    first, after = low, problem.mask.keys_after
    if problem.mask.window is not None:
        low = np.clip(position - problem.mask.window + 1, low, high)
    if after is None:
        return low, high
    return low, np.maximum(np.clip(position + after + 1, first, high), low)


def visible(problem: Problem) -> np.ndarray:
    """[seq_q, seq_kv] bool: the keys that each query sees."""
    low, high = visible_keys(problem, np.arange(problem.seq_q))
    key = np.arange(problem.seq_kv)
    return (key >= low[:, None]) & (key < high[:, None])


def document_of(problem: Problem, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and one past the last key of the document at each key position.

    Document i of D starts at key i N // D; a query that stands before the first key belongs to the first one.
    """
    keys = problem.seq_kv
    if not isinstance(problem.mask.documents, int):
        edges = document_edges(problem)
        document = np.searchsorted(edges, np.clip(position, 0, keys - 1), side="right")
        return edges[document - 1], edges[document]
    count = min(problem.mask.documents, keys)
    if count == 1:  # no division: this is asked for every row of a million
        return np.zeros_like(position), np.full_like(position, keys)
    document = ((np.clip(position, 0, keys - 1) + 1) * count - 1) // keys
    return document * keys // count, (document + 1) * keys // count


def document_edges(problem: Problem) -> np.ndarray:
    """[documents + 1] the key at which each document starts, and one past the last key."""
    if not isinstance(problem.mask.documents, int):
        return np.concatenate(([0], np.cumsum(problem.mask.documents, dtype=np.int64)))
    count = min(problem.mask.documents, problem.seq_kv)
    return np.arange(count + 1) * problem.seq_kv // count


def document_lengths(problem: Problem) -> list[int]:
    """The keys of each document."""
    return np.diff(document_edges(problem)).tolist()


@dataclass(frozen=True)
class KeyBounds:
    """Which key blocks each query block visits; arrays [query blocks] int64, never falling.

    Visited are first to stop - 1; of these, full_first to full_stop - 1 are seen whole by every row. Of very
    many query blocks, those that follow each other and see the same stand once: `alike` says how many.
    """

    first: np.ndarray
    stop: np.ndarray
    full_first: np.ndarray
    full_stop: np.ndarray
    alike: np.ndarray | None = None

    @property
    def visible(self) -> int:
        """Tiles of which the mask leaves something."""
        return self._sum(self.stop - self.first)

    @property
    def full(self) -> int:
        """Tiles that it leaves whole."""
        return self._sum(self.full_stop - self.full_first)

    def _sum(self, tiles: np.ndarray) -> int:
        return int((tiles if self.alike is None else tiles * self.alike).sum())

    def visited(self, key_blocks: int) -> np.ndarray:
        """[query blocks, key_blocks] bool: the tiles that are visited."""
        key = np.arange(key_blocks)
        return (key >= self.first[:, None]) & (key < self.stop[:, None])


def key_bounds(problem: Problem, tiling: Tiling) -> KeyBounds:
    """Loop bounds of every query block under the mask."""
    width = tiling.block_kv
    at, alike = _runs(problem, tiling.block_q)
    starts = at * tiling.block_q
    low_first, high_first = visible_keys(problem, starts)
    low_last, high_last = visible_keys(problem, np.minimum(starts + tiling.block_q, problem.seq_q) - 1)
    first = low_first // width
    stop = np.where(high_last > low_first, blocks(high_last, width), first)
    full_first = np.clip(blocks(low_last, width), first, stop)
    full_end = np.where(high_first == problem.seq_kv, blocks(high_first, width), high_first // width)
    bounds = first, stop, full_first, np.clip(full_end, full_first, stop)
    return KeyBounds(*bounds) if alike is None else _merged(bounds, alike)


def _runs(problem: Problem, block: int) -> tuple[np.ndarray, np.ndarray | None]:
    """(first query block, query blocks) of runs whose rows stand at the same keys; None: one block each."""
    count, packed = blocks(problem.seq_q, block), problem.rows_alike
    if packed < block or count <= MOST_LISTED:
        return np.arange(count, dtype=np.int64), None
    edges = np.arange(problem.seq_q // packed, dtype=np.int64) * packed
    # a run begins with the first block inside a query's rows, and with the one that holds two queries' rows
    at = np.stack((edges // block, blocks(edges, block)), 1).ravel()
    at = at[np.diff(at, prepend=-1) > 0]
    return at, np.diff(at, append=count)


def _merged(bounds: tuple[np.ndarray, ...], alike: np.ndarray) -> KeyBounds:
    """Neighbouring runs with the same bounds made one."""
    new = np.any([np.diff(column, prepend=-1) != 0 for column in bounds], axis=0)
    return KeyBounds(*(column[new] for column in bounds), np.add.reduceat(alike, np.flatnonzero(new)))


def query_bounds(bounds: KeyBounds, key_blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """The same visits from the key blocks: first and one past the last query block, [key_blocks] each."""
    keys = np.arange(key_blocks)
    first = np.searchsorted(bounds.stop, keys, side="right")
    stop = np.searchsorted(bounds.first, keys, side="right")
    return first, np.maximum(first, stop)
