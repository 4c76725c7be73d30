"""The model over a range: over algorithms, the sequence length, block sizes; measured rows beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TypeVar

import numpy as np

from engine.algorithms import compared, flash2, offered, standard
from engine.experiment import Experiment
from engine.model.device_memory import largest_context, memory_parts
from engine.model.footprint import Footprint, footprint
from engine.model.launch import launch
from engine.model.simulation import Simulation, simulate
from engine.model.traffic import requested_bytes
from engine.parameter import LARGEST_SEQUENCE
from engine.problem.bounds import field_flops
from engine.problem.hardware import Gpu
from engine.problem.problem import Problem, Tiling
from engine.recordings.rows import BASELINE, Row, modelled_row
from engine.schedule.bytes import Bytes
from engine.schedule.step import Tensor
from engine.studies.drawable import at_length

LENGTHS = tuple(4**power for power in range(3, 11))
LONGEST = 65_536  # of an axis, unless something longer is shown
Value = TypeVar("Value")
BLOCKS = (16, 32, 64, 128, 256)


@dataclass(frozen=True)
class ByLength:
    """Simulations of every algorithm, [lengths] each; a length is the number of keys."""

    lengths: tuple[int, ...]
    simulations: Mapping[str, tuple[Simulation, ...]]

    def up_to(self, most: int) -> ByLength:
        lengths = tuple(length for length in self.lengths if length <= most)
        return ByLength(lengths, {name: each[: len(lengths)] for name, each in self.simulations.items()})


@dataclass(frozen=True)
class TilingCost:
    """What tiles of one size request over batch and heads, and what a block of threads holds of them."""

    requested: Bytes
    footprint: Footprint


def side_by_side(experiment: Experiment) -> tuple[str, ...]:
    """What is shown with an experiment: those of one tiling, or all; split keys if they are its own."""
    record = experiment.record
    others = offered() if record.chooses_tiling else compared()
    return others if record.offered or not record.on_one_gpu else (*others, record.key)


def by_algorithm(experiment: Experiment, of: Callable[[Experiment], Value] = simulate) -> dict[str, Value]:
    """What the experiment comes to under every algorithm that is shown with it: `of` each, its simulation."""
    return {name: of(experiment.changed(algorithm=name)) for name in side_by_side(experiment)}


def seconds_over_length(experiment: Experiment, lengths: Sequence[int]) -> list[float]:
    """The modelled seconds of an experiment at each number of keys."""
    return [simulate(at_length(experiment, keys)).modelled.seconds for keys in lengths]


def by_length(experiment: Experiment) -> ByLength:
    """Every algorithm over the length, to the largest there is."""
    if experiment.problem.seq_q == experiment.problem.seq_kv:  # then its own length says nothing
        experiment = at_length(experiment, LARGEST_SEQUENCE)
    return _by_length(experiment)


@lru_cache(maxsize=64)
def _by_length(experiment: Experiment) -> ByLength:
    found = {
        name: tuple(simulate(at_length(experiment.changed(algorithm=name), keys)) for keys in LENGTHS)
        for name in side_by_side(experiment)
    }
    return ByLength(LENGTHS, found)


def by_tiling(experiment: Experiment) -> dict[tuple[int, int], TilingCost]:
    """What a block size decides at every pair (block_q, block_kv) of the usual sizes."""
    return _by_tiling(experiment.changed(block_q=BLOCKS[0], block_kv=BLOCKS[0]))  # its own says nothing


@lru_cache(maxsize=64)
def _by_tiling(experiment: Experiment) -> dict[tuple[int, int], TilingCost]:
    found = {}
    for rows, keys in product(BLOCKS, BLOCKS):
        tiled = experiment.changed(block_q=rows, block_kv=keys)
        run = launch(tiled)
        found[rows, keys] = TilingCost(requested_bytes(run.schedule), footprint(run))
    return found


@dataclass(frozen=True)
class Growth:
    """What unfused attention keeps in device memory, over batch and heads, beside what there is; bytes."""

    matrices: int  # S and P, a number for each query and key
    tensors: int  # all else: Q, K, V, O and lse, a number or a row of them for each token
    capacity: int  # of the GPU
    longest: Mapping[str, int]  # the most keys that fit, by UNFUSED and FUSED

    @property
    def unfused(self) -> int:
        return self.matrices + self.tensors


UNFUSED, FUSED = "unfused", "fused"


@lru_cache(maxsize=256)
def growth(experiment: Experiment) -> Growth:
    parts = memory_parts(experiment.changed(algorithm=standard.ALGORITHM.key))
    matrices = parts[Tensor.S] + parts[Tensor.P]
    each = {UNFUSED: standard.ALGORITHM.key, FUSED: flash2.ALGORITHM.key}
    longest = {name: largest_context(experiment.changed(algorithm=key)) for name, key in each.items()}
    return Growth(matrices, sum(parts.values()) - matrices, experiment.gpu.memory_bytes, longest)


def rows_that_fit(problem: Problem, chip_bytes: float) -> int:
    """Rows of the largest tiles of Q, K, V and O that fill so many bytes; at least 1."""
    return max(1, int(chip_bytes // (2 * (problem.head_dim + problem.v_dim) * problem.itemsize)))


def tile_bytes(experiment: Experiment, chip_bytes: float) -> int:
    """Bytes that FlashAttention-2 requests for one head in tiles that fill so many bytes, counted."""
    rows = rows_that_fit(experiment.problem, chip_bytes)
    one_head = replace(experiment.problem, batch=1, heads=1, kv_heads=1)
    return requested_bytes(flash2.ALGORITHM.schedule(one_head, Tiling(rows, rows))).total


STATISTICS = 8  # bytes that tiled attention keeps of a row of scores: m and l, float32
SQUARES = (4, 16, 64, 256, 1024, 4096, 16384)  # tokens of the squares of scores
DRAWN = 1024  # queries of the square that is cut


def grown(experiment: Experiment) -> list[tuple[int, int, int, int, str]]:
    """Squares of (tokens, scores, their bytes, bytes tiled attention keeps, the smallest memory for them)."""
    gpu, itemsize = experiment.gpu, experiment.problem.itemsize
    memories = ((gpu.shared_bytes_block, "one SM"), (gpu.l2_bytes, "L2"), (gpu.memory_bytes, "HBM"))
    stored = {tokens: tokens**2 * itemsize for tokens in SQUARES}
    fits = (next((name for size, name in memories if each <= size), "") for each in stored.values())
    return [
        (each, each**2, stored[each], each * STATISTICS, name)
        for each, name in zip(stored, fits, strict=True)
    ]


def cuts(experiment: Experiment) -> list[tuple[int, int, int, int]]:
    """(memory of a block, its queries, blocks of DRAWN queries, bytes requested): an eighth to all of it."""
    sizes = [experiment.gpu.shared_bytes_block // part for part in (8, 4, 2, 1)]
    rows = {size: rows_that_fit(experiment.problem, size) for size in sizes}
    return [(size, many, -(-DRAWN // many), tile_bytes(experiment, size)) for size, many in rows.items()]


HERE = "measured here"


def measured_rows(rows: Iterable[Row]) -> list[Row]:
    """The rows that have a time, with the speed-up over unfused PyTorch at that length, if it was timed."""
    timed = [row for row in rows if row["skipped"] is None]
    base = {row["keys"]: row["p50"] for row in timed if row["provider"] == BASELINE}
    return [
        {**row, "speedup": base[row["keys"]] / row["p50"] if row["keys"] in base else None} for row in timed
    ]


def modelled_rows(survey: ByLength) -> list[Row]:
    """The modelled times of every algorithm over the length, in the same figures as measured rows.

    Beside them "HBM": FLOPs, as the field counts them, for each DRAM byte.
    """
    return [
        modelled_row(one.experiment, keys)
        | {"HBM": field_flops(one.experiment.problem) / one.traffic.dram.total}
        for simulations in survey.simulations.values()
        for keys, one in zip(survey.lengths, simulations, strict=True)
    ]


@dataclass(frozen=True)
class Roofline:
    """A GPU's ceilings in one dtype, from its datasheet (Williams et al., CACM 52(4), 2009)."""

    peak_flops: float  # FLOP/s of dense matrix products
    bytes_per_second: float  # of device memory
    cache_bytes_per_second: float  # from L2 to all SMs

    @property
    def ridge(self) -> float:
        """FLOP/byte from which on arithmetic is the limit."""
        return self.peak_flops / self.bytes_per_second

    def attainable(self, intensity):
        """FLOP/s that an intensity (FLOP/byte, a number or an array) allows."""
        return np.minimum(self.peak_flops, np.asarray(intensity) * self.bytes_per_second)


def roofline(gpu: Gpu, dtype: str) -> Roofline:
    return Roofline(gpu.products_per_second(dtype), gpu.memory_bytes_per_second, gpu.cache_bytes_per_second)
