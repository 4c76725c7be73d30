// Pictures that move from frame to frame: where a key leads, and how the zoom gets from one depth to the next.

import assert from "node:assert/strict";
import test from "node:test";
import { FramesPlayer } from "../../app/canvas/frames.js";
import { axis } from "../../app/zoom/zoom.js";

/** A player without a page, at a place of three frames. */
function standing(at, calm = false) {
  const player = Object.create(FramesPlayer.prototype),
    clock = { calm: { matches: calm }, playing: false, start: () => (clock.playing = true) };
  clock.stop = () => (clock.playing = false);
  return Object.assign(player, { at, speed: 1, model: { longest: 2 }, clock, draw() {} });
}

test("a key moves to the next frame in one movement and stops there; a second one leads further", () => {
  const player = standing(0);
  player.step(1);
  player.advance(0.25);
  assert.equal(player.at, 0.25);
  assert.ok(player.playing);
  player.step(1); // pressed again on the way
  for (let n = 0; n < 40; n++) if (player.playing) player.advance(0.25);
  assert.equal(player.at, 2);
  assert.ok(!player.playing);
  player.step(-1);
  player.advance(0); // the clock's first picture
  player.advance(0.4);
  assert.ok(player.at < 2 && player.at > 1);
});

test("for those who ask for less motion a key leads there at once", () => {
  const player = standing(0.4, true);
  player.step(1);
  assert.equal(player.at, 1);
  assert.ok(!player.playing);
});

test("an axis of the zoom shows each depth where it must, and comes nearer all the way", () => {
  const layer = [0, 4.4, 20, 420],
    score = [0.5162, 0.5163, 100, 300];
  const place = (part, value) => {
    const { scale, shift } = axis(layer, score, part);
    return scale * value + shift;
  };
  const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-6 * Math.abs(b), `${a} is not ${b}`);
  near(place(0, 4.4), 420);
  near(place(1, 0.5162), 100);
  near(place(1, 0.5163), 300);
  let before = 0;
  for (let part = 0; part <= 1; part += 0.05) {
    const wide = place(part, 0.5163) - place(part, 0.5162);
    assert.ok(wide > before);
    before = wide;
  }
  const shifted = axis([0, 1, 0, 100], [2, 3, 0, 100], 0.5); // no zoom, only a way
  near(shifted.scale * 1.5 + shifted.shift, 50);
});
