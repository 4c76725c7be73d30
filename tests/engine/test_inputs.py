"""Inputs are the same everywhere, lie in their dtype, and make a running maximum rise."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Experiment
from engine.problem.dtype import round_to
from engine.problem.inputs import make_inputs
from engine.studies.drawable import drawable
from engine.trace.rows import row_statistics
from tests.engine.strategies import experiments


def test_inputs_of_a_seed_are_these_bits():
    problem = Experiment.of(seq=64, heads=1, head_dim=16).problem
    digest = hashlib.sha256(b"".join(array.tobytes() for array in make_inputs(problem, 0))).hexdigest()
    assert digest[:16] == "3c044903d19cc3bb"
    again = make_inputs(problem, 1)
    assert not np.array_equal(again[0], make_inputs(problem, 0)[0])


def test_inputs_have_their_shapes_and_heads():
    problem = Experiment.of(seq=5, seq_kv=7, head_dim=3).problem
    q, k, v = make_inputs(problem, heads=2)
    assert (q.shape, k.shape, v.shape) == ((2, 5, 3), (2, 7, 3), (2, 7, 3))
    assert {array.dtype for array in (q, k, v)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_inputs_lie_in_their_dtype(dtype):
    for array in make_inputs(Experiment.of(seq=64, dtype=dtype).problem):
        np.testing.assert_array_equal(round_to(array, dtype), array)


def test_most_running_maxima_rise_several_times():
    experiment = Experiment.of(seq=1024, heads=1)
    q, k, _ = (array[0] for array in make_inputs(experiment.problem))
    rises = (np.diff(row_statistics(experiment, q, k, np.arange(1024)).m, axis=1) > 0).sum(1)
    assert np.median(rises) >= 3


@given(st.floats(width=32, allow_nan=False, allow_infinity=False).filter(lambda value: abs(value) < 3e38))
def test_bfloat16_is_the_nearest_and_ties_go_to_the_even(value):
    rounded = float(round_to(np.float32(value), "bfloat16"))
    bits = int(np.float32(value).view(np.uint32))
    below, above = (float(np.uint32(part << 16).view(np.float32)) for part in (bits >> 16, (bits >> 16) + 1))
    distance = {below: abs(value - below), above: abs(above - value)}
    assert distance[rounded] == min(distance.values())
    if distance[below] == distance[above]:
        assert int(np.float32(rounded).view(np.uint32)) >> 16 & 1 == 0


def test_infinities_and_nan_survive_rounding():
    for dtype in ("float16", "bfloat16", "float32"):
        kept = round_to(np.array([np.inf, -np.inf, np.nan], np.float32), dtype)
        assert kept.tolist()[:2] == [np.inf, -np.inf]
        assert np.isnan(kept[2])
    assert round_to(np.float32(7e4), "float16") == np.inf


@given(experiments(), st.integers(1, 8))
def test_what_is_drawn_has_at_most_so_many_tiles_and_keeps_its_blocks(experiment, most):
    small = drawable(experiment, most)
    problem, tiling = small.problem, small.tiling
    assert problem.seq_q <= most * tiling.block_q
    assert problem.seq_kv <= most * tiling.block_kv
    assert tiling == experiment.tiling
    before = experiment.problem
    if before.seq_q <= most * tiling.block_q and before.seq_kv <= most * tiling.block_kv:
        assert small is experiment
    else:
        factor = max(before.seq_q / tiling.block_q, before.seq_kv / tiling.block_kv) / most
        for length, longer in ((problem.seq_q, before.seq_q), (problem.seq_kv, before.seq_kv)):
            assert length == pytest.approx(max(1, longer / factor), abs=1)
        assert (problem.mask.window is None) == (before.mask.window is None)
