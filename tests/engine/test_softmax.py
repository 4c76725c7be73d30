"""The online softmax of one row, step by step, and what its examples say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.trace.softmax import PRESETS, naive_sums, online_steps

SCORES = st.lists(st.floats(-30, 30) | st.just(-np.inf), min_size=1, max_size=40)


@given(SCORES, st.integers(1, 12))
def test_every_step_is_the_softmax_of_what_has_been_seen(scores, block):
    scores = np.array(scores)
    steps = online_steps(scores, block)
    assert steps.stops[-1] == len(scores)
    for step, stop in enumerate(steps.stops):
        seen = scores[:stop]
        assert steps.m[step] == seen.max()
        expected = np.exp(seen - seen.max()) if np.isfinite(seen.max()) else np.zeros(stop)
        np.testing.assert_allclose(steps.weights[step, :stop], expected)
        assert not steps.weights[step, stop:].any()
        assert steps.l[step] == pytest.approx(expected.sum())
    assert steps.final.sum() == pytest.approx(1 if np.isfinite(scores).any() else 0)


@given(SCORES, st.integers(1, 12))
def test_the_running_sum_follows_from_alpha(scores, block):
    steps, total, start = online_steps(np.array(scores), block), 0.0, 0
    for step, stop in enumerate(steps.stops):
        total = steps.alpha[step] * total + steps.weights[step, start:stop].sum()
        assert steps.l[step] == pytest.approx(total, rel=1e-9, abs=1e-12)
        start = stop


def test_a_sum_without_a_maximum_overflows_float16():
    scores = np.array(PRESETS["overflow"].scores)
    assert naive_sums(scores, "float16")[-1] == np.inf
    assert naive_sums(scores, "float32")[-1] == pytest.approx(np.exp(scores).sum())


@pytest.mark.parametrize("block", [1, 2, 4, 8])
def test_presets_say_what_holds_at_every_size_of_step(block):
    """Single scores of the rising row may be smaller than those before: it says how many rise at a time."""
    rising = online_steps(np.array(PRESETS["rising"].scores), block)
    assert (np.diff(rising.m) > 0).all() == (block > 1)
    assert PRESETS["rising"].what.startswith(
        "With two or more scores per step, every block of this row contains a new largest"
    )
    masked = online_steps(np.array(PRESETS["masked"].scores), block)
    first = masked.stops <= 4
    assert np.isneginf(masked.m[first]).all()
    assert not masked.l[first].any()
    assert np.isfinite(masked.m[~first]).all()
    assert PRESETS["masked"].what.startswith("The first four keys are masked, so m stays −∞")
