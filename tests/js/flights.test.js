// Which tiles are on their way at a moment: those that the steps have just moved, and no others.

import assert from "node:assert/strict";
import test from "node:test";
import { flightsOf } from "../../app/player/memory_panel.js";
import { Model } from "../../app/player/model.js";
import { each } from "./each.js";
import { toy } from "./payload.js";

const { run } = new Model(toy()); // for each query tile: Q, 2 visits of K, V and 4 steps of arithmetic, O, lse

test("in a still picture the step's own tile stands on its way, and none in arithmetic", () => {
  const flying = (at) => `${flightsOf(run, at, 0).map(({ step }) => step)}`;
  each([0, 1, 2, 3, 4, 14, 15, 31], flying, ["", "0", "1", "2", "", "13", "14", ""]);
});

test("while it plays, a tile leaves with its step and arrives a flight later", () => {
  assert.deepEqual(flightsOf(run, 1, 3), [{ step: 0, part: 0 }]);
  const flying = flightsOf(run, 3.5, 3);
  each(flying, ({ step }) => step, [0, 1, 2]);
  assert.ok(flying[0].part > flying[1].part && flying[1].part > flying[2].part);
  each(flightsOf(run, 5, 3), ({ step }) => step, [1, 2]);
  each(flightsOf(run, 5, 3), ({ part }) => part, [1, (2 / 3) ** 2 * (3 - 4 / 3)]);
});

test("of very many tiles every so many is shown, the same ones from picture to picture", () => {
  const shown = (at) => flightsOf(run, at, 100).map(({ step }) => step);
  assert.ok(shown(31).length <= 9);
  const [before, after] = [new Set(shown(25)), shown(26)];
  assert.ok(after.every((step) => before.has(step) || step >= 24));
});

test("what stands in memory grows with each tile's first store, to the whole of it", () => {
  each([-1, 12, 13, 27, 28, 30], (step) => run.storedAt("O", step), [0, 0, 0.5, 0.5, 1, 1]);
  assert.deepEqual(Object.keys(run.stored), ["O", "lse"]);
});

test("a step crosses HBM with its share, and arithmetic with none", () => {
  each([0, 1, 3, 13], (step) => run.crossingOf(step), [1, 0.5, 0, 1]);
});
