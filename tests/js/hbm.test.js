// What crosses HBM: areas are bytes at any moment, and what is said is of the calls at work then.

import assert from "node:assert/strict";
import { test } from "node:test";
import { drawFlow, Sampled } from "../../app/hbm/flow.js";
import { sentence } from "../../app/hbm/hbm.js";
import { each, pack } from "./payload.js";

const lane = (name, interval, end, ...kernels) => {
  return { name, interval, end, kernels, most: 100, seconds: end / 1e6 };
};
const lanes = [lane("Slow", 2, 12, [0, 6, "Q K → S"], [8, 12, ""]), lane("Fast", 1, 3, [0, 3, "Q K V → O"])];
const columns = {
  "lane0.read": ["uint32", [10, 20, 40, 0, 60, 70]],
  "lane0.written": ["uint32", [0, 80, 0, 0, 0, 0]],
  "lane1.read": ["uint32", [100, 0, 0]],
  "lane1.written": ["uint32", [0, 0, 30, 10]], // the last after its end
};
const model = new Sampled(pack({ lanes }, columns)),
  [slow, fast] = model.lanes;

test("bytes until a moment come evenly within an interval, and all are there at the end", () => {
  each([-1, 0, 1, 2, 3, 11, 12, 99], (at) => slow.until("read", at), [0, 0, 5, 10, 20, 165, 200, 200]);
  each([3, 3.5, 4, 9], (at) => fast.moved(at), [130, 135, 140, 140]);
  assert.equal(slow.mean("read", 1, 5), 22.5); // 5 + 20 + 20 in two intervals
  assert.equal(slow.moved(Infinity), 280);
});

test("the run ends with the last byte, and arrows lead from kernel to kernel", () => {
  assert.equal(model.longest, 12);
  each([0, 3, 6, 8, 12], (at) => model.spans.eventBeside(at, 1), [3, 6, 8, 12, Infinity]);
  each([0, 3, 7], (at) => model.spans.eventBeside(at, -1), [0, 0, 6]);
});

test("the sentence is of the first that runs, and of those that are done", () => {
  assert.equal(sentence(model, 1), "Slow, Q K → S: 45% of what HBM can deliver.");
  assert.match(sentence(model, 7), /^Slow: 47% of what HBM can deliver\. Fast was done after 3\.00 µs\.$/);
  const end =
    "Slow moved 280 B through HBM in 12.0 µs, Fast 140 B in 3.00 µs: 2.0 times fewer bytes, 4.0 times less time.";
  assert.equal(sentence(model, 12), end);
  const elsewhere = Object.assign(Object.create(slow), { origin: "recorded", name: "Other" });
  assert.equal(sentence({ lanes: [slow, fast, elsewhere] }, 12), end);
  assert.equal(sentence({ lanes: [slow] }, 12), "Slow moved 280 B through HBM in 12.0 µs.");
});

test("what is drawn has the area of the bytes, whatever the width", () => {
  const timeAt = (x) => (x - 5) / 7, // 7 px a microsecond, from 5 on
    tall = (share) => 40 * share;
  for (const pixel of [1, 0.5]) {
    const areas = { Q: 0, O: 0 },
      ctx = { fillRect: (_x, _y, w, h) => (areas[ctx.fillStyle] += w * h) };
    drawFlow(ctx, slow, { from: 5, to: 5 + 7 * 12, zero: 0, pixel }, timeAt, tall, (color) => color);
    const bytes = 100 / (40 * 7 * 2); // of a square pixel: two microseconds an interval
    assert.ok(Math.abs(-areas.Q * bytes - 200) < 1e-9, "read, above the line");
    assert.ok(Math.abs(areas.O * bytes - 80) < 1e-9, "written, below it");
  }
});
