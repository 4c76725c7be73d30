// The pictures of a GIF: from the first position to the last, for about twenty seconds.

import assert from "node:assert/strict";
import test from "node:test";
import { reelOf } from "../../app/player/film.js";

const seconds = ({ count, hundredths }) =>
  Array.from({ length: count }, (_, n) => hundredths(n)).reduce((sum, each) => sum + each, 0) / 100;

test("a long run has 256 pictures in twenty seconds, and its last one stands two more", () => {
  const reel = reelOf(5100);
  assert.deepEqual([reel.count, reel.at(0), reel.at(51), reel.at(255)], [256, 0, 1020, 5100]);
  assert.ok(Math.abs(seconds(reel) - 22) < 0.5);
  assert.equal(reel.hundredths(255) - reel.hundredths(254), 200);
});

test("a short run has a picture for each position, half a second each at most", () => {
  const reel = reelOf(9);
  assert.deepEqual([reel.count, reel.at(4), reel.at(9), reel.hundredths(0)], [10, 4, 9, 50]);
  assert.equal(seconds(reel), 7);
});
