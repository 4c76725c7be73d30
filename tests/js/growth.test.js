// The matrix in the memory: its area is its share of the bytes, whatever its shape.

import assert from "node:assert/strict";
import test from "node:test";
import { rate, traffic } from "../../app/canvas/format.js";
import { sidesOf, wordsOf } from "../../app/memory/growth.js";
import { each } from "./each.js";

test("a matrix as large as the memory has its sides, and one of half the length half of them", () => {
  assert.deepEqual(sidesOf(1, 5, 5), { w: 220, h: 220 });
  assert.deepEqual(sidesOf(0.25, 5, 5), { w: 110, h: 110 });
  const { w, h } = sidesOf(0.1, 100, 400);
  assert.ok(Math.abs(w * h - 0.1 * 220 ** 2) < 1e-9 && Math.abs(w / h - 4) < 1e-9);
});

test("what fits the memory is drawn within it, however long one side is", () => {
  const { w, h } = sidesOf(0.1, 1, 65_536);
  assert.ok(Math.abs(w - 220) < 1e-9 && Math.abs(h - 22) < 1e-9);
  assert.ok(sidesOf(0.1, 65_536, 1).h < 220 + 1e-9);
  assert.equal(sidesOf(2, 1, 65_536).w, 660);
});

test("it says what does not fit, and by how much", () => {
  const sizes = { tensors: 1e9, capacity: 10e9, gpu: "H200", heads: 16, queries: 1024, keys: 1024 };
  assert.equal(wordsOf({ ...sizes, matrices: 1e9 }).verdict, "Standard attention takes 20% of the memory.");
  const beyond = wordsOf({ ...sizes, matrices: 24e9 });
  assert.deepEqual(
    [beyond.fits, beyond.verdict],
    [false, "Standard attention does not fit: it takes 2.5 times the memory."],
  );
});

test("what hardly exceeds the memory is not said to take 1.0 times as much", () => {
  const sizes = { tensors: 0, capacity: 10e9, gpu: "H200", heads: 1, queries: 9, keys: 9 };
  const { verdict } = wordsOf({ ...sizes, matrices: 10e9 + 1 });
  assert.equal(verdict, "Standard attention does not fit: it takes a little more than the memory.");
});

test("memories count in one unit system, whether they lie on the chip or beside it", () => {
  each([228 * 1024, 60 * 2 ** 20, 141e9, 16e9], traffic, ["233 kB", "62.9 MB", "141 GB", "16.0 GB"]);
  each([4.8e12, 15.46e12, 320e9, 936e9], rate, ["4.8 TB/s", "15.5 TB/s", "0.32 TB/s", "0.94 TB/s"]);
});
