"""Bytes over the memory on the chip: the tiles' own count against the theorem's N² d² / M."""

from __future__ import annotations

from math import ceil

import pytest

from engine.experiment import Experiment
from engine.studies.survey import SIZES, rows_that_fit, theorem_bytes, tile_bytes

EXPERIMENT = Experiment.of(seq=16384, head_dim=128, heads=4)


@pytest.mark.parametrize("size", SIZES)
def test_tiles_ask_for_q_once_and_for_k_and_v_once_per_query_block(size):
    rows = size // (4 * 128 * 2)  # tiles of Q, K, V and O, of float16
    assert rows_that_fit(EXPERIMENT.problem, size) == rows
    keys = 2 * 16384 * 128 * 2 * ceil(16384 / rows)
    assert tile_bytes(EXPERIMENT, size) == 2 * 16384 * 128 * 2 + keys + 4 * 16384  # Q, O and lse beside


def test_the_theorem_halves_with_twice_the_memory_and_is_what_the_tiles_come_to():
    halves = [theorem_bytes(EXPERIMENT.problem, size) for size in (2**14, 2**15)]
    assert halves[0] / halves[1] == 2
    assert halves[0] == pytest.approx(8 * 16384**2 * 128**2 / (2**14 / 2) * 2)
    for size in SIZES:
        assert tile_bytes(EXPERIMENT, size) == pytest.approx(
            theorem_bytes(EXPERIMENT.problem, size), rel=0.03
        )
