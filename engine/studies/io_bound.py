"""Bytes over the memory on the chip: FlashAttention's N² d² / M, beside what the tiles request.

Theorem 2 of arXiv 2205.14135: tiles of Q, K, V and O with M / 4d rows each fill a chip that holds M numbers.
"""

from __future__ import annotations

from dataclasses import replace

from engine.algorithms import flash2
from engine.experiment import Experiment
from engine.model.traffic import requested_bytes
from engine.problem.hardware import KIB
from engine.problem.problem import Problem, Tiling

SIZES = tuple(KIB * size for size in (8, 16, 32, 64, 99, 163, 227))  # bytes a thread block may have


def rows_that_fit(problem: Problem, chip_bytes: float) -> int:
    """Rows of the largest tiles of Q, K, V and O that fill so many bytes; at least 1."""
    return max(1, int(chip_bytes // (4 * problem.head_dim * problem.itemsize)))


def tile_bytes(experiment: Experiment, chip_bytes: float) -> int:
    """Bytes that FlashAttention-2 requests for one head in tiles that fill so many bytes, counted."""
    rows = rows_that_fit(experiment.problem, chip_bytes)
    one_head = replace(experiment.problem, batch=1, heads=1, kv_heads=1)
    return requested_bytes(flash2.ALGORITHM.schedule(one_head, Tiling(rows, rows))).total


def theorem_bytes(problem: Problem, chip_bytes: float) -> float:
    """8 N² d² / M elements of K and V for one head, M in elements, as bytes: what the order stands for."""
    elements = chip_bytes / problem.itemsize
    return 8 * problem.seq_q * problem.seq_kv * problem.head_dim**2 / elements * problem.itemsize
