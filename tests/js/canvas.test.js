// What all moving pictures share: bytes as the server packs them, words on a canvas, cells for a spreadsheet.

import assert from "node:assert/strict";
import test from "node:test";
import { csvCell } from "../../app/canvas/csv.js";
import { Pen } from "../../app/canvas/pen.js";
import { equalBytes, unpack } from "../../app/canvas/unpack.js";
import { showing } from "../../app/canvas/view.js";
import { pack } from "./payload.js";

test("a block of bytes comes apart into its header and its arrays, whatever their types", () => {
  const arrays = {
    small: ["uint8", [1, 2, 255]],
    wide: ["uint16", [65_535]],
    large: ["uint32", [4_294_967_295, 7]],
    signed: ["int16", [-3]],
    whole: ["int32", [-70_000]],
    real: ["float32", [0.5, -Infinity, 3]],
  };
  const { header, arrays: found } = unpack(pack({ name: "é × ½" }, arrays));
  assert.equal(header.name, "é × ½");
  for (const [name, [, values]] of Object.entries(arrays)) assert.deepEqual([...found[name]], values, name);
  assert.ok(found.real instanceof Float32Array);
});

test("bytes are equal where all are", () => {
  const block = pack({ a: 1 }, { b: ["uint8", [1, 2]] }),
    other = block.slice();
  assert.ok(equalBytes(block, other));
  other[other.length - 1] ^= 1;
  assert.ok(!equalBytes(block, other));
  assert.ok(!equalBytes(block, block.subarray(1)));
});

/** A pen on a canvas whose letters are 10 wide, and what it wrote. */
function writer() {
  const written = [];
  const measureText = (words) => ({ width: 10 * words.length });
  const ctx = { measureText, fillText: (words) => written.push(words) };
  return { pen: new Pen(ctx, { ink: "black" }, 1), written };
}

test("facts that have no room are left out whole, the first is shortened at last", () => {
  const { pen, written } = writer();
  const facts = ["15.7 ms", "efficiency 94%", "computing"];
  for (const room of [0, 360, 359, 240, 239, 69]) pen.text(facts, 0, 0, { room });
  const [two, all] = [2, 3].map((count) => facts.slice(0, count).join(" · "));
  assert.deepEqual(written, [all, all, two, two, "15.7 ms", "15.7 …"]);
  assert.deepEqual(facts.length, 3);
});

test("one text is shortened, and its width returned", () => {
  const { pen, written } = writer();
  assert.equal(pen.text("follows the tile", 0, 0, { room: 85 }), 80);
  assert.deepEqual(written, ["follows…"]);
});

test("words that a spreadsheet would run are defused", () => {
  for (const start of ["=", "+", "-", "@", "\t", "\r", " =", "\n +", "\u00a0@", "\ufeff=", "\u200b-", "＝"]) {
    assert.match(csvCell(`${start}HYPERLINK`), /^"?'/);
  }
  assert.equal(csvCell('=HYPERLINK("http://x","y")'), '"\'=HYPERLINK(""http://x"",""y"")"');
  assert.equal(csvCell("-1+1|cmd"), "'-1+1|cmd");
});

test("numbers and other words stay what they are", () => {
  for (const text of ["-0.189", "+3", "-1.5e-9", "12", "-12%", "flash2", "N = 4", "a-b", ""])
    assert.equal(csvCell(text), text);
  assert.equal(csvCell(-0.25), "-0.25");
  assert.equal(csvCell(null), "");
  assert.equal(csvCell("1,024"), '"1,024"');
});

test("a file opens at the step that its address names, and a page of the dashboard where it stood", () => {
  const steps = (hash, more = {}) => {
    globalThis.location = { hash };
    const view = { at: 5, update() {}, release() {}, seek: (at) => (view.at = at) };
    view.step = (by) => (view.at += by);
    const show = showing(function Shown() {
      return view;
    });
    const parentElement = {};
    show({ data: 1, parentElement, ...more });
    show({ data: 2, parentElement, ...more });
    return view.at;
  };
  assert.deepEqual([steps("#step=7"), steps(""), steps("#step=7", { setStateValue() {} })], [7, 5, 5]);
});
