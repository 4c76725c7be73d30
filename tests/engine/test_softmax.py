"""Three softmaxes of one row: the same in theory, not in sixteen bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.problem.dtype import round_to
from engine.trace.softmax import PRESETS, errors, naive, online, online_steps, parse, safe

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


@given(SCORES, st.integers(1, 12), st.sampled_from(["float16", "bfloat16", "float32"]))
def test_safe_and_online_stay_finite_and_near(scores, block, dtype):
    scores = np.array(scores)
    found = errors(scores, block, dtype)
    epsilon = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}[dtype]
    # a difference of scores of up to 60 is off by half a unit in its last place; a sum rounds once a term
    bound = epsilon * (2 * 64 + 2 * len(scores) + 8)
    assert max(found["safe"], found["online"]) <= bound


def test_naive_softmax_overflows_float16_and_the_others_do_not():
    scores = np.array(PRESETS["overflow"].scores)
    assert not np.isfinite(naive(scores, "float16")).all()
    assert np.isfinite(naive(scores, "bfloat16")).all()
    found = errors(scores, 4, "float16")
    assert found["naive"] == np.inf
    assert max(found["safe"], found["online"]) < 1e-3


def test_a_row_that_sees_no_key_has_no_weights():
    blind = np.full(5, -np.inf)
    for weights in (safe(blind, "float16"), online(blind, 2, "float16"), online_steps(blind, 2).final):
        assert weights.tolist() == [0] * 5
    assert np.isnan(naive(blind, "float16")).all()


def test_typed_scores_are_read():
    assert parse("1, 2.5;-3\n-inf \u22124").tolist() == [1, 2.5, -3, -np.inf, -4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  ", "No scores were given; type at least one number, for example 0.5 1.2 -inf 3"),
        ("1 two", "'two' is not a number; scores are numbers, or -inf for a masked key"),
        ("nan", "'nan' is not a score; it must lie from -65,504 to 65,504, or be -inf"),
        ("inf", "'inf' is not a score; it must lie from -65,504 to 65,504, or be -inf"),
        ("1 " * 300, "300 scores were given; at most 256 can be shown"),
    ],
)
def test_typed_scores_that_are_none_get_a_sentence(text, message):
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text)
    assert str(caught.value) == message


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


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_online_softmax_is_no_worse_than_what_stores_its_exponentials(name, dtype):
    """m and l are float32 whatever the dtype: only weights are rounded, by half a unit of the last place."""
    scores = np.array(PRESETS[name].scores)
    found, exact = errors(scores, 2, dtype), online_steps(round_to(scores, dtype)).final
    assert found["online"] <= 1.01 * found["safe"] + 1e-7
    half = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-22}[dtype]
    assert found["online"] <= exact.max() * half * 1.01
