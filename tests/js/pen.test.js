// What the pen writes where there is little room.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Pen } from "../../app/canvas/pen.js";

/** A pen on a canvas whose letters are 10 wide, and what it wrote. */
function writer() {
  const written = [];
  const ctx = {
    measureText: (words) => ({ width: 10 * words.length }),
    fillText: (words) => written.push(words),
  };
  return { pen: new Pen(ctx, { ink: "black" }, 1), written };
}

test("facts that have no room are left out whole, the first is shortened at last", () => {
  const { pen, written } = writer();
  const facts = ["15.7 ms", "efficiency 94%", "computing"];
  for (const room of [0, 360, 359, 240, 239, 69]) pen.text(facts, 0, 0, { room });
  assert.deepEqual(written, [
    "15.7 ms · efficiency 94% · computing",
    "15.7 ms · efficiency 94% · computing",
    "15.7 ms · efficiency 94%",
    "15.7 ms · efficiency 94%",
    "15.7 ms",
    "15.7 …",
  ]);
  assert.deepEqual(facts.length, 3);
});

test("one text is shortened, and its width returned", () => {
  const { pen, written } = writer();
  assert.equal(pen.text("follows the tile", 0, 0, { room: 85 }), 80);
  assert.deepEqual(written, ["follows…"]);
});
