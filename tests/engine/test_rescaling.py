"""The row that α rescales: held against a softmax in one go, here and as the browser sums it."""

import json

import numpy as np

from engine.studies.rescales import Rescaling, example
from tests.js.test_scripts import node

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


def in_one_go(row: Rescaling) -> np.ndarray:
    weights = np.exp(row.scores - row.scores.max())
    return weights / weights.sum() @ row.values


def without_alpha(row: Rescaling) -> np.ndarray:
    weights = np.exp(row.scores - np.repeat(row.steps.m, row.block)[: len(row.scores)])
    return weights @ row.values / weights.sum()


def test_what_the_browser_sums_while_a_score_is_dragged_is_what_the_engine_computes():
    given = [{"scores": r.scores.tolist(), "values": r.values.tolist(), "block": r.block} for r in rows()]
    ended = node("--input-type=module", "-e", RUN, given=json.dumps(given))
    assert ended.returncode == 0, ended.stderr
    for row, (right, broken) in zip(rows(), json.loads(ended.stdout), strict=True):
        np.testing.assert_allclose(right["result"], in_one_go(row), rtol=1e-12)
        np.testing.assert_allclose(broken["result"], without_alpha(row), rtol=1e-12)
        for of in ("m", "alpha"):
            found = np.array([tile[of] for tile in right["tiles"]])[1:]
            np.testing.assert_allclose(found, getattr(row.steps, of)[1:], rtol=1e-12)
        np.testing.assert_allclose([tile["l"]["after"] for tile in right["tiles"]], row.steps.l, rtol=1e-12)
        np.testing.assert_allclose(
            [tile["out"]["after"] for tile in right["tiles"]], row.steps.weights @ row.values
        )
        shrunk = [np.multiply(tile["out"]["before"], tile["factor"]) for tile in right["tiles"]]
        np.testing.assert_allclose([tile["out"]["rescaled"] for tile in right["tiles"]], shrunk, atol=1e-12)
