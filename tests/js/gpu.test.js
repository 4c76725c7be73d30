// The GPU over time: units that are short to read, and one block that is not called several.

import assert from "node:assert/strict";
import { test } from "node:test";
import { microseconds, unitOf } from "../../app/canvas/format.js";
import { sentence } from "../../app/gpu/story.js";

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
    return sentence({ lanes: [lane] }, 1);
  };
  assert.match(said(1, 0), /^1 block runs on 1 of 4 SMs; 0 of 1 is done\. 3 SMs never get a block/);
  assert.match(said(3, 1), /; 1 of 3 is done\./);
  assert.match(said(3, 2), /; 2 of 3 are done\./);
});
