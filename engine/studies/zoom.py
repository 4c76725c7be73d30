"""From a layer to one score: which heads, tiles and warps hold it, and what it does to its row."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.algorithms import flash1, flash2
from engine.experiment import Experiment
from engine.model.launch import Launch, launch
from engine.model.occupancy import WARP, is_online, threads_of
from engine.model.simulation import simulate
from engine.problem.bounds import visible_keys
from engine.problem.inputs import make_inputs
from engine.schedule.step import STATISTIC_BYTES
from engine.studies.drawable import drawable
from engine.trace.rows import masked_scores, row_statistics

DEPTHS = ("layer", "head", "tile", "warp", "score")
CHOICES = {"zoom": (tuple(range(len(DEPTHS))), 0)}  # what a page may ask, and what it usually does
MOST_NUMBERS = 2**20  # of K, that are drawn for the scores of one head
WARP_ROWS = 16  # of a product that one warp takes: PTX ISA, wgmma.mma_async and mma


@dataclass(frozen=True)
class Zoom:
    """One score of the first head, and what it lies in. Rows are queries, columns keys, from 0 on."""

    # whose numbers these are: the same, with plain scores, maybe with fewer tokens, or under FlashAttention-2
    experiment: Experiment
    run: Launch  # its launch
    tile: tuple[int, int]  # query block and key block
    warps: int  # of the thread block
    # [warps, 4] the first rows that each warp computes of the tile and the keys: first row, stop, first key,
    # stop, counted within the tile
    pieces: np.ndarray
    warp: int  # which of them has the score
    # [rows, block_kv] float32 the tile's scaled scores, -inf where masked or past the last key
    scores: np.ndarray
    # row, key: of the score
    row: int
    key: int
    # q, k: [d] the row of Q and of K
    q: np.ndarray
    k: np.ndarray
    score: float  # q k / sqrt(d), the largest of its row so far
    # m, l: before the tile and after it; alpha: what l and O are multiplied by
    m: tuple[float, float]
    l: tuple[float, float]  # noqa: E741 - the field's name
    alpha: float

    @property
    def warp_size(self) -> tuple[int, int]:
        """Queries and keys of the tile that the warp has in all."""
        first, stop = self.pieces[self.warp, 2:]
        by_rows = self.warps == 1 or self.pieces[-1, 0] > 0
        rows = len(self.scores)
        return -(-rows // self.warps) if by_rows else rows, int(stop - first)

    @property
    def thread_scores(self) -> float:
        rows, keys = self.warp_size
        return rows * keys / WARP


@lru_cache(maxsize=16)
def zoom(experiment: Experiment) -> Zoom:
    """The last score that raises its row's maximum, in the middle query row of the middle query block."""
    experiment = _told(experiment)
    run, tiling = launch(experiment), experiment.tiling
    alone = experiment.changed(batch=1, heads=1, kv_heads=1)
    q, k, _ = (each[0] for each in make_inputs(alone.problem))
    rows, width = tiling.block_q, tiling.block_kv
    middle = len(run.schedule.query_rows) // 2 * rows + rows // 2
    row = min(middle, len(q) - 1)
    low, high = visible_keys(alone.problem, np.array([row]))
    row = row if low[0] < high[0] else len(q) - 1  # which sees the last key
    i = row // rows
    found = row_statistics(alone, q, k, [row])
    order = np.flatnonzero(~np.isnan(found.m[0]))
    if any(phase.reverse for phase in run.schedule.phases):
        order = order[::-1]
    alpha, m, total = (each[0, order] for each in (found.alpha, found.m, found.l))
    rises = np.flatnonzero((alpha > 0) & (alpha < 1))
    at = int(rises[-1]) if len(rises) else 0
    j = int(order[at])
    here = slice(j * width, (j + 1) * width)
    scores = masked_scores(alone, q, k, np.arange(i * rows, min(i * rows + rows, len(q))))[:, here]
    scores[row - i * rows] = masked_scores(alone, q, k, np.array([row]))[
        0, here
    ]  # as its statistics were rounded
    key = j * width + int(scores[row - i * rows].argmax())
    pieces = warp_pieces(rows, width, threads_of(run.schedule, run.schedule.phases[0]) // WARP)
    within = row - i * rows, key - j * width
    by_keys = int(np.searchsorted(pieces[:, 3], within[1], "right"))
    warp = within[0] // WARP_ROWS % len(pieces) if pieces[-1, 0] > 0 else by_keys  # rows come again
    before = (float(m[at - 1]), float(total[at - 1])) if at else (-np.inf, 0.0)
    return Zoom(
        *(experiment, run, (i, j), len(pieces), pieces, warp, scores, row, key),
        *(q[row], k[key], float(scores[within])),
        *((before[0], float(m[at])), (before[1], float(total[at])), float(alpha[at])),
    )


def warp_pieces(rows: int, keys: int, warps: int) -> np.ndarray:
    """[warps, 4] what each takes first of a tile: 16 rows with all keys, or of few rows a part of the keys.

    Where there are more rows than that, each goes on with those that are 16 x warps further down.
    """
    number = np.arange(warps)
    if rows >= WARP_ROWS * warps:
        first, keys_first, tall, wide = number * WARP_ROWS, 0 * number, WARP_ROWS, keys
    else:
        wide = -(-keys // warps)
        first, keys_first, tall = 0 * number, number * wide, rows
    stop = np.minimum(first + tall, rows), np.minimum(keys_first + wide, keys)
    return np.stack([first, stop[0], keys_first, stop[1]], axis=1)


def _told(experiment: Experiment) -> Experiment:
    """With plain scores, and under FlashAttention-2 where no one kernel takes all keys of a query in turn."""
    experiment = experiment.changed(softcap=None, sinks=False, slopes=False)
    problem, tiling = experiment.problem, experiment.tiling
    across = max(tiling.block_q, tiling.block_kv)
    experiment = drawable(experiment, max(1, MOST_NUMBERS // (problem.head_dim * across)))
    phases = launch(experiment).schedule.phases
    if len(phases) == 1 and is_online(phases[0]) and experiment.tiling.splits == 1:
        return experiment
    return experiment.changed(algorithm=flash2.ALGORITHM.key)


WARPS = 4  # as in the paper's figure
STEPS = ("cut", "scores", "maximum", "weights", "products", "sum")


@dataclass(frozen=True)
class Shared:
    """A tile's visit, or several: bytes through shared memory and waits, after each step."""

    # [steps] counted since the start of the visit, after each of STEPS: bytes written and read, and waits
    passed: tuple[int, ...]
    waits: tuple[int, ...]
    visits: int  # tiles of a head, each of which passes as many bytes


def partitions(experiment: Experiment) -> dict[str, Shared]:
    """A tile of a head, its keys cut among WARPS warps and its queries: "keys" and "queries".

    Of cut keys every warp has all rows: it leaves their maxima for every other, and to whoever adds a share
    of the rows its part of their O and l, float32. Of cut queries nothing that it computes concerns another.
    """
    one = experiment.changed(algorithm=flash1.ALGORITHM.key, batch=1, heads=1, kv_heads=1)
    rows, visits = one.tiling.block_q, simulate(one).per_head.tiles_visited
    left = 2 * (WARPS - 1) * rows * STATISTIC_BYTES  # bytes, written and read, of a number a row
    maxima, parts = WARPS * left, (one.problem.v_dim + 1) * left
    passed, none = (0, 0, maxima, maxima, maxima, maxima + parts), (0,) * len(STEPS)
    return {"keys": Shared(passed, (0, 0, 1, 1, 1, 2), visits), "queries": Shared(none, none, visits)}
