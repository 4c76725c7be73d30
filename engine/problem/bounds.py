"""Which tiles a mask skips, leaves in part or full, from either side; and FLOPs as the field counts them."""

from dataclasses import dataclass

import numpy as np

from engine.problem.problem import Problem, Tiling

MOST_LISTED = 2**17  # query blocks that stand one by one
ROWS_AT_ONCE = 2**16


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
    return problem.mask.keys(problem.positions(np.asarray(rows, np.int64)), problem.seq_kv)


def visible(problem: Problem, rows: np.ndarray | None = None, keys: np.ndarray | None = None) -> np.ndarray:
    """[rows, keys] bool: which of these keys these query rows see; by default all of them."""
    rows = np.arange(problem.seq_q) if rows is None else np.asarray(rows, np.int64)
    keys = np.arange(problem.seq_kv) if keys is None else keys
    return problem.mask.sees(problem.positions(rows), keys, problem.seq_kv)


def visible_pairs(problem: Problem) -> int:
    """How many pairs of a query and a key a head's mask leaves."""
    pairs, step = 0, (2**22 // problem.seq_kv if problem.mask.has_holes else ROWS_AT_ONCE)
    for start in range(0, problem.seq_q, max(1, step)):
        rows = np.arange(start, min(start + max(1, step), problem.seq_q))
        low, stop = visible_keys(problem, rows)
        pairs += int(visible(problem, rows).sum() if problem.mask.has_holes else (stop - low).sum())
    return pairs


def outline(problem: Problem) -> list[list[int]]:
    """The edges of what is seen, in straight pieces: [first query, low, its slope, stop, its slope].

    low and stop are the first and one past the last key seen by that query, slopes 0 or 1 key per query.
    """
    edges = np.stack(visible_keys(problem, np.arange(problem.seq_q)))
    steps = np.diff(edges, append=edges[:, -1:])
    straight = ((steps == 0) | (steps == 1)).all(0)
    turns = (steps[:, 1:] != steps[:, :-1]).any(0) & straight[:-1]
    first = np.concatenate(([0], np.flatnonzero(turns | ~straight[:-1]) + 1))
    slopes = np.where(straight, steps, 0)[:, first]
    low, stop = edges[:, first]
    return np.stack([first, low, slopes[0], stop, slopes[1]], 1).tolist()


@dataclass(frozen=True)
class KeyBounds:
    """Which key blocks each query block visits; arrays [query blocks] int64, never falling.

    Visited are first to stop - 1; of these, full_first to full_stop - 1 are seen whole by every row. Of very
    many query blocks, those that follow each other and see the same stand once: `alike` says how many.

    >>> from engine.problem.mask import Mask
    >>> found = key_bounds(Problem(seq_q=256, seq_kv=256, mask=Mask(causal=True)), Tiling())
    >>> found.stop.tolist(), found.visible, found.full
    ([1, 2, 3, 4], 10, 6)
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
    full_stop = np.where(high_first == problem.seq_kv, blocks(high_first, width), high_first // width)
    if problem.mask.has_holes:
        full_stop = full_first
    bounds = first, stop, full_first, np.clip(full_stop, full_first, stop)
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


BACKWARD_FLOPS = 2.5  # over the forward pass's, by the field's convention


def field_flops(problem: Problem) -> int:
    """FLOPs as the field counts them: 2 B H N N (d + d of V), halved when causal; else by visible pairs."""
    if problem.mask.kinds <= {"causal"} and problem.seq_q == problem.seq_kv:
        whole = 2 * problem.all_heads * problem.seq_q**2 * (problem.head_dim + problem.v_dim)
        return whole // 2 if problem.mask.hides else whole
    return pair_flops(problem)


def pair_flops(problem: Problem) -> int:
    """FLOPs of the pairs that the mask leaves, 2 (d + d of V) each."""
    return 2 * problem.all_heads * visible_pairs(problem) * (problem.head_dim + problem.v_dim)
