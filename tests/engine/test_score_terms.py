"""Sinks, caps and slopes on a scenario's scores, each against a witness of its own."""

import math

import numpy as np
import pytest

from engine.experiment import Experiment
from engine.problem.bounds import visible
from engine.problem.inputs import make_inputs
from engine.studies.terms import CAPS, SINKS, capped, ramp, ramps, score_terms, slope_of

SMALL = Experiment.of(seq=96, heads=4, block_q=32, block_kv=32, causal=True)


def test_weights_and_the_sinks_share_sum_to_one():
    """1 / (1 + exp(sink - lse)) is what a sink leaves, a formula that the study does not use."""
    found = score_terms(SMALL)
    q, k, _ = make_inputs(SMALL.changed(heads=1, kv_heads=1).problem)
    scores = (q[0].astype(np.float64) @ k[0].astype(np.float64).T) / math.sqrt(64)
    scores = np.where(np.tri(96, dtype=bool), scores, -np.inf)[found.rows]
    lse = np.log(np.exp(scores).sum(1))
    for sink in SINKS:
        assert found.sums[sink] == pytest.approx(1 / (1 + np.exp(sink - lse)), rel=1e-5)
    assert found.most == pytest.approx(np.abs(scores[np.isfinite(scores)]).max(), rel=1e-5)
    assert found.keys == 96


def test_a_row_without_keys_gives_all_to_the_sink():
    found = score_terms(Experiment.of(seq=64, seq_kv=32, causal=True))
    assert (found.sums[0.0][found.rows < 32] == 0).all()


def test_a_cap_bounds_scores_and_leaves_small_ones_alone():
    scores = np.array([-100.0, -0.01, 0.0, 1.0, 100.0])
    for cap in CAPS:
        found = capped(scores, cap)
        assert found[[0, -1]] == pytest.approx([-cap * math.tanh(100 / cap), cap * math.tanh(100 / cap)])
        assert abs(found).max() < cap + 1e-9
        assert found[1] == pytest.approx(-0.01, rel=1e-5)
    assert capped(np.array([1.0]), 2.0)[0] == pytest.approx(2 * 0.46211715726)


@pytest.mark.parametrize(
    "values",
    [
        {"causal": True},
        {"seq_kv": 130, "window": (40, 9), "block_kv": 64},
        {"seq": 70, "seq_kv": 33, "causal": True},
        {"documents": (50, 46)},
    ],
    ids=str,
)
def test_a_tile_of_the_ramp_is_the_most_that_a_pair_keeps(values):
    experiment = SMALL.changed(causal=False, **values) if "causal" not in values else SMALL.changed(**values)
    problem, tiling = experiment.problem, experiment.tiling
    position = problem.positions(np.arange(problem.seq_q))[:, None]
    left = np.exp(-0.1 * abs(position - np.arange(problem.seq_kv)))
    seen, found = visible(problem), ramp(experiment, 0.1)
    for i, j in np.ndindex(found.shape):
        tile = np.s_[
            i * tiling.block_q : (i + 1) * tiling.block_q, j * tiling.block_kv : (j + 1) * tiling.block_kv
        ]
        most = left[tile][seen[tile]].max() if seen[tile].any() else 0.0
        assert found[i, j] == pytest.approx(most, abs=1e-12)


def test_slopes_fall_from_head_to_head_to_an_eighth_power():
    assert [slope_of(head, 8) for head in range(1, 9)] == [2.0**-head for head in range(1, 9)]
    shown = ramps(SMALL)
    assert [one.head for one in shown] == [1, 2, 4]
    assert shown[0].halves == pytest.approx(math.log(2) * 4)
    assert shown[-1].halves == pytest.approx(177.4, rel=1e-3)
    assert [one.head for one in ramps(SMALL.changed(heads=1, kv_heads=1))] == [1]
