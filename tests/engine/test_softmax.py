"""The online softmax of one row, here and as the browser sums it, and how often heads rescale."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.experiment import Experiment
from engine.problem.heads import Heads
from engine.problem.inputs import make_inputs
from engine.studies.rescales import WINDOWS, Rescaling, example, rescales
from engine.trace.softmax import PRESETS, naive_sums, online_steps
from tests.engine.strategies import online, softmax
from tests.js.test_scripts import node

SCORES = st.lists(st.floats(-30, 30) | st.just(-np.inf), min_size=1, max_size=40)


@given(SCORES, st.integers(1, 12))
def test_every_step_is_the_softmax_of_what_has_been_seen(scores, block):
    scores = np.array(scores)
    steps, total, start = online_steps(scores, block), 0.0, 0
    assert steps.stops[-1] == len(scores)
    for step, stop in enumerate(steps.stops):
        seen = scores[:stop]
        assert steps.m[step] == seen.max()
        expected = np.exp(seen - seen.max()) if np.isfinite(seen.max()) else np.zeros(stop)
        np.testing.assert_allclose(steps.weights[step, :stop], expected)
        assert not steps.weights[step, stop:].any()
        assert steps.l[step] == pytest.approx(expected.sum())
        total = steps.alpha[step] * total + steps.weights[step, start:stop].sum()
        assert steps.l[step] == pytest.approx(total, rel=1e-9, abs=1e-12)
        start = stop
    assert steps.final.sum() == pytest.approx(1 if np.isfinite(scores).any() else 0)


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


RUN = """
import { resultOf, tilesOf } from "./app/rescale/run.js";
import { readFileSync } from "node:fs";
const rows = JSON.parse(readFileSync(0, "utf8"));
const told = rows.map(({ scores, values, block }) => [true, false].map((rescaling) => {
  const tiles = tilesOf(scores, values, block, rescaling);
  return { tiles, result: resultOf(tiles) };
}));
console.log(JSON.stringify(told));
"""


def rows() -> list[Rescaling]:
    """The example, and drawn ones: ragged last tiles, a maximum that never rises, scores far apart."""
    random = np.random.default_rng(7)
    drawn = [
        Rescaling(random.normal(0, spread, keys), random.normal(size=(keys, 4)), block)
        for keys, block, spread in ((16, 4, 1), (13, 4, 3), (9, 2, 8), (5, 8, 1))
    ]
    return [example(), *drawn, Rescaling(np.arange(12.0)[::-1], random.normal(size=(12, 4)), 3)]


def test_what_the_browser_sums_while_a_score_is_dragged_is_what_the_engine_computes():
    given = [{"scores": r.scores.tolist(), "values": r.values.tolist(), "block": r.block} for r in rows()]
    ended = node("--input-type=module", "-e", RUN, given=json.dumps(given))
    assert ended.returncode == 0, ended.stderr
    for row, (right, broken) in zip(rows(), json.loads(ended.stdout), strict=True):
        np.testing.assert_allclose(right["result"], softmax(row.scores) @ row.values, rtol=1e-12)
        weights = np.exp(row.scores - np.repeat(row.steps.m, row.block)[: len(row.scores)])  # without alpha
        np.testing.assert_allclose(broken["result"], weights @ row.values / weights.sum(), rtol=1e-12)
        for of in ("m", "alpha"):
            found = np.array([tile[of] for tile in right["tiles"]])[1:]
            np.testing.assert_allclose(found, getattr(row.steps, of)[1:], rtol=1e-12)
        np.testing.assert_allclose([tile["l"]["after"] for tile in right["tiles"]], row.steps.l, rtol=1e-12)
        out = [tile["out"]["after"] for tile in right["tiles"]]
        np.testing.assert_allclose(out, row.steps.weights @ row.values)
        shrunk = [np.multiply(tile["out"]["before"], tile["factor"]) for tile in right["tiles"]]
        np.testing.assert_allclose([tile["out"]["rescaled"] for tile in right["tiles"]], shrunk, atol=1e-12)


def test_rises_and_small_ones_are_those_of_a_loop():
    experiment = Experiment.of(seq=96, heads=2, head_dim=16, block_q=16, block_kv=16, causal=True)
    found = rescales(experiment)
    for head, tensors in enumerate(zip(*make_inputs(experiment.problem, heads=2), strict=True)):
        visited = rose = small = left = 0
        distance = bits = first = outside = 0.0
        for row in range(96):
            _, *visits = online(experiment, tensors, row).values()
            visited, rose = visited + len(visits), rose + sum(each.m > each.before for each in visits)
            small += sum(each.before < each.m < each.before + 8 / np.log2(np.e) for each in visits)
            _, *kept = online(experiment, tensors, row, threshold=8).values()
            left += sum(each.alpha < 1 for each in kept)
            share = softmax(tensors[0][row].astype(float) @ tensors[1][: row + 1].T.astype(float) / 4)
            first += share[0] / 96
            distance += share @ np.arange(row, -1, -1) / 96
            bits -= share @ np.log2(share) / 96
            outside += share[: max(0, row + 1 - WINDOWS[0])].sum() / 96
        one = found[head]
        assert (one.rises, one.kept) == pytest.approx((rose / visited, small / rose))
        assert one.rescaled == pytest.approx(left / visited)
        assert (one.distance, one.entropy, one.first) == pytest.approx((distance, bits, first), abs=1e-5)
        assert one.outside[WINDOWS[0]] == pytest.approx(outside, abs=1e-6)
        assert one.error < 1e-5


def test_where_keys_come_last_first_it_is_a_rising_head_that_never_rescales():
    """FlashAttention-4's order and blocks: by a loop over the same 128 keys, from the last on."""
    drawn = np.random.default_rng(0)
    q, k, v = (drawn.standard_normal((1, 512, 16)) for _ in range(3))
    q[0, :, 0] = 8
    k[0, :, 0] = np.linspace(0, 8, 512)
    forth, back = (
        rescales(Experiment.of(algorithm=each, inputs=Heads.of(q, k, v), block_q=16, block_kv=128))[0]
        for each in ("flash2", "flash4")
    )
    assert (forth.rises, back.rises, back.rescaled) == (1, 0, 0)
    scores = q[0, ::4] @ k[0].T / 4
    rose = (np.diff(np.maximum.accumulate(scores.reshape(128, 4, 128).max(2), 1)) > 8 / np.log2(np.e)).mean()
    assert forth.rescaled <= rose + 1 / 3
    assert max(forth.error, back.error) < 1e-5
