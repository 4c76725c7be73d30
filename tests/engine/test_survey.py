"""A survey holds, at every length, what the experiment says when it is asked at that length alone; and
bytes over the memory on the chip are the tiles' own count, and the theorem's N² d² / M.
"""

from itertools import pairwise
from math import ceil

import pytest

from engine import Experiment, simulate
from engine.parameter import LARGEST_SEQUENCE
from engine.studies.survey import (
    by_length,
    cuts,
    grown,
    growth,
    rows_that_fit,
    tile_bytes,
)


@pytest.mark.parametrize("sequence", [{"seq": 96}, {"seq": 4096}, {"seq": 64, "seq_kv": 4096}])
def test_a_survey_is_the_same_experiment_at_every_length(sequence):
    experiment = Experiment.of(**sequence, heads=2, block_q=256, block_kv=256, causal=True)
    survey, share = by_length(experiment), experiment.problem.seq_q / experiment.problem.seq_kv
    assert survey.lengths[0] == 64
    assert survey.lengths[-1] == LARGEST_SEQUENCE
    for name, simulations in survey.simulations.items():
        for keys, simulation in zip(survey.lengths, simulations, strict=True):
            queries = max(1, round(keys * share))
            assert simulation == simulate(experiment.changed(algorithm=name, seq=queries, seq_kv=keys))


def test_equal_lengths_share_one_survey():
    assert by_length(Experiment.of(seq=64)) is by_length(Experiment.of(seq=8192))


def test_the_matrices_fill_the_memory_at_the_length_at_which_it_ends():
    """S and P are 2 * 16 heads * N^2 * 2 B: 64 N^2; Q, K, V and O beside them 16 heads * 4 N d * 2 B."""
    now = growth(Experiment.of())
    assert now.matrices == 64 * 1024**2
    assert now.tensors == pytest.approx(16 * 1024 * 4 * 64 * 2, rel=0.01)
    assert now.longest["unfused"] == pytest.approx((now.capacity / 64) ** 0.5, rel=0.01)
    last, over = (growth(Experiment.of(seq=now.longest["unfused"] + more)) for more in (0, 1))
    assert last.matrices + last.tensors <= last.capacity < over.matrices + over.tensors


SIZES = tuple(1024 * size for size in (8, 16, 32, 64, 99, 163, 227))  # bytes a thread block may have
FOUR_HEADS = Experiment.of(seq=16384, head_dim=128, heads=4)


@pytest.mark.parametrize("size", SIZES)
def test_tiles_ask_for_q_once_and_for_k_and_v_once_per_query_block(size):
    rows = size // (4 * 128 * 2)  # tiles of Q, K, V and O, of float16
    assert rows_that_fit(FOUR_HEADS.problem, size) == rows
    keys = 2 * 16384 * 128 * 2 * ceil(16384 / rows)
    assert tile_bytes(FOUR_HEADS, size) == 2 * 16384 * 128 * 2 + keys + 4 * 16384  # Q, O and lse beside


def test_the_square_grows_with_the_square_of_the_length_and_outgrows_the_chip():
    squares = grown(Experiment.of(head_dim=128, hardware="h200"))
    assert all(at[1:4] == (at[0] ** 2, 2 * at[0] ** 2, 8 * at[0]) for at in squares)
    assert [fits for *_, fits in squares] == ["one SM"] * 4 + ["L2"] * 2 + ["HBM"]  # 233 kB, 60 MB, 150 GB


def test_twice_the_memory_is_half_the_blocks_and_half_the_bytes():
    for less, more in pairwise(cuts(FOUR_HEADS)):
        assert more[:2] == pytest.approx([2 * each for each in less[:2]], abs=1)  # memory, and queries
        assert less[2] == ceil(1024 / less[1])
        assert more[3] == pytest.approx(less[3] / 2, rel=0.02)
