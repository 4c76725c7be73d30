// The animation loop, on a display that a test moves on.

import assert from "node:assert/strict";
import test from "node:test";
import { Clock } from "../../app/canvas/view.js";

/** A clock whose frames come when asked for; `moved` lists the seconds that it was told to move by. */
function ticking({ calm = false, connected = true } = {}) {
  const asked = [],
    moved = [];
  globalThis.matchMedia = () => ({ matches: calm });
  globalThis.requestAnimationFrame = (frame) => asked.push(frame);
  const clock = new Clock({ isConnected: connected }, (seconds) => moved.push(seconds), 200);
  const show = (...times) => {
    for (const now of times) for (const frame of asked.splice(0)) frame(now);
  };
  return { clock, moved, asked, show };
}

test("it moves by the time between two pictures, from the first on by nothing", () => {
  const { clock, moved, show } = ticking();
  clock.start();
  show(1000, 1016, 1048);
  assert.deepEqual(moved, [0, 0.016, 0.032]);
});

test("a page that lay behind another does not leap, and a stopped clock asks for nothing", () => {
  const { clock, moved, asked, show } = ticking();
  clock.start();
  show(0, 60_000);
  assert.deepEqual(moved, [0, 0.25]);
  clock.stop();
  show(60_016);
  assert.deepEqual([moved.length, asked.length, clock.playing], [2, 0, false]);
});

test("for those who ask for less motion a picture stands for its pause, and no time is lost", () => {
  const { clock, moved, show } = ticking({ calm: true });
  clock.start();
  show(0, 100, 199, 200, 300, 410);
  assert.deepEqual(moved, [0, 0.2, 0.21]);
});

test("it ends with the page that it is on", () => {
  const { clock, moved, asked, show } = ticking({ connected: false });
  clock.start();
  show(0);
  assert.deepEqual([moved, asked], [[], []]);
});
