// The sentence above the picture speaks of what the picture shows: of its row, and of the tile at work at that moment.

import assert from "node:assert/strict";
import test from "node:test";
import { microseconds, unitOf } from "../../app/canvas/format.js";
import { sentence as ofGpu } from "../../app/gpu/gpu.js";
import { sentenceAt } from "../../app/inside/inside.js";
import { tellingStep } from "../../app/player/first_moment.js";
import { Model } from "../../app/player/model.js";
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

test("inside a block a store is said once", () => {
  const lanes = [
    { short: "TMA", marks: [] },
    { short: "group 1", marks: [["softmax", 1, 0, 2]] },
    { short: "group 2", marks: [["store O", -1, 0, 2]] },
  ];
  const operations = { softmax: { deed: "softmax of S{}" }, "store O": { deed: "writing O" } };
  const said = "No copy in flight. Group 1: softmax of S₁. Group 2: writing O.";
  assert.equal(sentenceAt({ lanes, operations }, 1), said);
});

test("an axis has the unit in which its longest time is short", () => {
  const names = [2.84, 9999, 1e4, 585_000, 1e7].map((longest) => unitOf(longest)[1]);
  assert.deepEqual(names, ["µs", "µs", "ms", "ms", "s"]);
  const [unit, name] = unitOf(585_000);
  assert.equal(`${microseconds(267_547 / unit, 0.01)} ${name}`, "267.55 ms");
});

test("of one block, and of one that is done, the sentence says is", () => {
  const said = (count, done) => {
    const at = () => ({ done, running: 1, busy: 1 });
    const lane = { count, at, microseconds: 9, tail: 1, used: 1, sms: 4, origin: "modelled" };
    return ofGpu({ lanes: [lane] }, 1);
  };
  assert.match(said(1, 0), /^1 block runs on 1 of 4 SMs; 0 of 1 is done\. 3 SMs never get a block/);
  assert.match(said(3, 1), /; 1 of 3 is done\./);
  assert.match(said(3, 2), /; 2 of 3 are done\./);
  const one = { count: 9, at: () => ({}), microseconds: 9, tail: 1.5, busy: 0.75, imbalance: 0.25 };
  const end =
    "9 blocks took 9.00 µs, and the SMs were busy 75% of that time. In the last 1.50 µs, the tail, some had";
  assert.ok(ofGpu({ lanes: [one] }, 9).startsWith(`${end} nothing left to do; the busiest worked 25% lo`));
});
