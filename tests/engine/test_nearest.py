"""The nearest recorded row: a criterion decides only among those that the ones before it leave equal."""

from types import SimpleNamespace

from engine.experiment import Experiment
from engine.problem.problem import Mask, Problem
from engine.recordings.nearest import (
    all_heads,
    difference,
    differing,
    doublings,
    head_dim,
    length,
    masked,
    nearest,
    nearest_length,
    windowed,
)


def row(seq: int = 1024, heads: int = 16, head_dim: int = 64, **mask) -> SimpleNamespace:
    return SimpleNamespace(problem=Problem(1, heads, heads, seq, seq, head_dim, mask=Mask(**mask)))


def test_criteria_decide_in_their_order():
    rows = [row(causal=True), row(4096), row(1024, head_dim=128)]
    wanted = Experiment.of(seq=1024, head_dim=64)
    assert nearest(rows, wanted, differing(masked), difference(head_dim), doublings(length)) is rows[1]
    assert nearest(rows, wanted, differing(masked), doublings(length), difference(head_dim)) is rows[2]
    assert nearest(rows, wanted, difference(head_dim), doublings(length)) is rows[0]


def test_a_window_differs_twice_from_no_mask():
    rows = [row(window=9), row(2**17, causal=True)]
    assert nearest(rows, Experiment.of(), differing(masked, windowed), doublings(length)) is rows[1]


def test_doublings_of_several_numbers_add_up_either_way():
    rows = [row(4096, heads=64), row(256, heads=16), row(1024, heads=2)]
    assert nearest(rows, Experiment.of(seq=1024, heads=16), doublings(length, all_heads)) is rows[1]


def test_the_first_of_equals_is_taken_and_none_of_none():
    rows = [row(2048), row(512)]
    assert nearest(rows, Experiment.of(seq=1024), doublings(length)) is rows[0]
    assert nearest([], Experiment.of(), doublings(length)) is None


def test_of_two_lengths_as_far_the_smaller():
    assert nearest_length([2048, 512], 1024) == 512
    assert nearest_length([], 1024) is None
