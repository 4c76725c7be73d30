// A row with a threshold: m stays until a score passes it by more than 2^8, and O comes out the same.

import assert from "node:assert/strict";
import { test } from "node:test";
import { resultOf, tilesOf } from "../../app/rescale/run.js";
import { each } from "./payload.js";

const scores = [0.7, 1.4, 1.8, 0.1, 2.4, -Infinity, 7.4, 0.2],
  values = scores.map((_, key) => [key, 1 - key]);

test("a maximum stays until it is passed by more than the threshold", () => {
  const tiles = tilesOf(scores, values, 2, true, 8);
  each(tiles, ({ m }) => m, [1.4, 1.4, 1.4, 7.4]);
  each(tiles, ({ largest }) => largest, [1.4, 1.8, 2.4, 7.4]);
  each(tiles.slice(1), ({ alpha }) => alpha, [1, 1, Math.exp(1.4 - 7.4)]);
});

test("O is that of all scores at once", () => {
  const weights = scores.map(Math.exp),
    sum = weights.reduce((one, other) => one + other),
    exact = [0, 1].map(
      (dim) => weights.reduce((all, weight, key) => all + weight * values[key][dim], 0) / sum,
    );
  for (const threshold of [0, 8, 20])
    resultOf(tilesOf(scores, values, 2, true, threshold)).forEach((found, dim) =>
      assert.ok(Math.abs(found - exact[dim]) < 1e-12),
    );
});
