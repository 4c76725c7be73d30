// The sentence above the picture speaks of what the picture shows: of its row, and of the tile at work at that moment.

import assert from "node:assert/strict";
import test from "node:test";
import { sentenceAt } from "../../app/inside/inside.js";
import { tellingStep } from "../../app/player/first_moment.js";
import { Model } from "../../app/player/model.js";
import { raceSentence } from "../../app/player/race.js";
import { sentence } from "../../app/player/story.js";
import { PHASE, toy } from "./payload.js";

const model = new Model(toy()),
  { run } = model;
test("where the row that is followed is in another tile, the sentence speaks of no row", () => {
  const [inTile0, inTile1] = [4, 19].map((step) => sentence(model, run, step, 2)); // row 3, of query tile 1
  assert.match(inTile1, /row 3/);
  assert.equal(
    inTile0,
    "Query tile 0 meets key tile 0. Each of its rows compares its maximum m with the largest of its scores in this tile.",
  );
  for (let step = 0; step < 15; step++)
    assert.doesNotMatch(sentence(model, run, step, 2), /[Rr]ow \d/, `${step}`);
});

test("the first moment of a run with key tiles outside is one at which the followed row is at work", () => {
  const phases = [{ ...PHASE, outer: "key", gathers: false, carries: false }];
  const outside = new Model(toy({ run: { phases, rewrites: true } }));
  const step = tellingStep(outside, outside.run);
  assert.equal(outside.run.query[step], Math.round(0.6 * (outside.queryBlocks - 1)));
  assert.equal(outside.run.operation(step), "rescale");
});

test("a race that is under way is told in per cent", () => {
  const told = raceSentence(model, 0.37 * run.time);
  assert.match(told, /^After 17\.8 µs of modelled time a toy is 37% through\.$/);
});

test("inside a block a store is said once", () => {
  const lanes = [
    { short: "TMA", marks: [] },
    { short: "group 1", marks: [["softmax", 1, 0, 2]] },
    { short: "group 2", marks: [["store O", -1, 0, 2]] },
  ];
  const operations = { softmax: { deed: "softmax of S{}" }, "store O": { deed: "writing O" } };
  assert.equal(
    sentenceAt({ lanes, operations }, 1),
    "No copy in flight. Group 1: softmax of S₁. Group 2: writing O.",
  );
});
