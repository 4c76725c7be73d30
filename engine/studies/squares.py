"""Two squares of scores: one that grows with the sequence, and one that is cut into blocks of queries."""

from typing import NamedTuple

from engine.experiment import Experiment
from engine.studies.survey import rows_that_fit, tile_bytes

STATISTICS = 8  # bytes that tiled attention keeps of a row of scores: m and l, float32
LENGTHS = (4, 16, 64, 256, 1024, 4096, 16384)
DRAWN = 1024  # queries of the square that is cut


class Grown(NamedTuple):
    """The scores of one head of so many tokens, their bytes, and what tiled attention keeps of them."""

    tokens: int
    scores: int
    stored: int
    kept: int
    fits: str  # in the smallest memory that holds them


class Cut(NamedTuple):
    """Memory for a block's tiles, the queries that it takes, blocks of DRAWN queries, bytes requested."""

    memory: int
    rows: int
    blocks: int
    requested: int


def grown(experiment: Experiment) -> list[Grown]:
    gpu, itemsize = experiment.gpu, experiment.problem.itemsize
    memories = ((gpu.shared_bytes_block, "one SM"), (gpu.l2_bytes, "L2"), (gpu.memory_bytes, "HBM"))
    stored = {tokens: tokens**2 * itemsize for tokens in LENGTHS}
    fits = (next((name for size, name in memories if each <= size), "") for each in stored.values())
    return [
        Grown(each, each**2, stored[each], each * STATISTICS, name)
        for each, name in zip(stored, fits, strict=True)
    ]


def cuts(experiment: Experiment) -> list[Cut]:
    """The square under an eighth of a block's largest memory, a quarter, a half, and all of it."""
    sizes = [experiment.gpu.shared_bytes_block // part for part in (8, 4, 2, 1)]
    rows = {size: rows_that_fit(experiment.problem, size) for size in sizes}
    return [Cut(size, many, -(-DRAWN // many), tile_bytes(experiment, size)) for size, many in rows.items()]
