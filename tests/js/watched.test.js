// A watched kernel small enough to follow by hand: two query blocks, causal; a hidden tile visited, one twice.

import assert from "node:assert/strict";
import test from "node:test";
import { BytesPanel } from "../../app/watched/panels.js";
import { Watched } from "../../app/watched/run.js";
import { sentence } from "../../app/watched/story.js";
import { each, pack } from "./payload.js";

const KINDS = ["load", "store", "atomic", "visit", "meet"];
const COLUMNS = ["kind", "tensor", "line", "program", "query", "key", "bytes"];
const [Q, K, , S, O] = [0, 1, 2, 3, 4];
const OWN = [
  [0, Q, 3, 0, 0, -1, 64],
  [0, K, 5, 0, 0, 0, 64],
  [3, S, 6, 0, 0, 0, 0],
  [0, K, 5, 0, 0, 1, 64],
  [3, S, 6, 0, 0, 1, 0],
  [1, O, 9, 0, 0, -1, 64],
  [0, Q, 3, 1, 1, -1, 64],
  [3, S, 6, 1, 1, 0, 0],
  [3, S, 6, 1, 1, 0, 0],
  [4, O, 7, 1, 1, 0, 0],
  [1, O, 9, 1, 1, -1, 64],
];
const FLASH2 = [
  [0, 0, -1, 0, 0, -1, 64],
  [3, -1, -1, 0, 0, 0, 0],
  [1, 3, -1, 0, 0, -1, 64],
  [3, -1, -1, 0, 1, 0, 0],
  [3, -1, -1, 0, 1, 1, 0],
  [1, 3, -1, 0, 1, -1, 64],
];
const columns = (name, rows) =>
  COLUMNS.map((column, n) => [`${name}.${column}`, ["int32", rows.map((row) => row[n])]]);

function watched(more = {}) {
  const header = {
    kinds: KINDS,
    whole: true,
    tiled: true,
    source: [],
    findings: [],
    head: 0,
    heads: 1,
    drawn: { seq_q: 4, seq_kv: 4, block_q: 2, block_kv: 2 },
    marks: { extra: [[0, 1]], missing: [[1, 1]], repeated: [[1, 0]] },
    runs: [
      { name: "mine.py", tensors: ["Q", "K", "V", "S", "O"], programs: [0, 1].map((at) => [1, at, 0, 0]) },
      { name: "FlashAttention-2", tensors: ["Q", "K", "V", "O"], programs: [] },
    ],
    ...more,
  };
  const bounds = { first: [0, 0], stop: [1, 2], full_first: [0, 0], full_stop: [0, 1] };
  return new Watched(
    pack(header, {
      ...Object.fromEntries([...columns("own", OWN), ...columns("flash2", FLASH2)]),
      ...Object.fromEntries(Object.entries(bounds).map(([name, values]) => [name, ["uint16", values]])),
    }),
  );
}

test("what was done by a position: visits, bytes, and the rows of O that are written", () => {
  const { own, longest } = watched();
  assert.equal(longest, OWN.length + 1);
  each([0, 2, 3, 5, longest], (position) => own.visitsBy(position), [0, 0, 1, 2, 4]);
  assert.equal(`${[...own.visited(longest, 2)]}`, "0,1,1,1,2,2"); // tile, times
  assert.deepEqual(own.moved(4).get("K"), { read: 128, written: 0 });
  assert.deepEqual(own.moved(longest).get("O"), { read: 0, written: 128 });
  assert.deepEqual([...own.stored(6)], [0]);
});

test("FlashAttention-2 has made as many visits, and rests when it has no more", () => {
  const model = watched();
  each([0, 1, 2, 3, 4, 5], (position) => model.beside(position), [0, 1, 1, 2, 3, 4]);
  assert.equal(model.beside(9), FLASH2.length); // four visits where it makes three
  assert.equal(model.beside(model.longest), FLASH2.length + 1);
});

test("a step, a marked tile and the end are sentences", () => {
  const model = watched();
  assert.equal(sentence(model, 2), "Line 5, program (0, 0, 0) reads 64 B of K (key block 0).");
  assert.match(sentence(model, 5), /tile \(0, 1\)\. The mask hides all of this tile: it is extra\.$/);
  assert.match(sentence(model, 10), /^Line 7, program \(1, 0, 0\) multiplies P by block 0 of V and adds /);
  assert.equal(
    sentence(model, model.longest),
    "Done, with 4 visits where FlashAttention-2 makes 3: 1 tile extra, 1 missing, 1 visited more than once.",
  );
  const marks = { extra: [], missing: [], repeated: [] },
    right = watched({ marks });
  assert.match(sentence(right, right.longest), /: the tiles that the mask leaves, once each\.$/);
  const wrong = watched({ marks, wrong: [1, 0] });
  assert.match(sentence(wrong, 8), /After this tile the numbers of a row are wrong\.$/);
});

test("a tensor's bytes stand before FlashAttention-2's, which are in brackets", () => {
  const model = watched(),
    said = [],
    pen = {
      u: 1,
      theme: { cell: "#101010", ground: "#000000", ink: "#ffffff", muted: "#888888" },
      text: (words) => said.push(words),
      right: (words) => said.push(words),
      box() {},
    },
    panel = Object.assign(new BytesPanel(), { model });
  panel.layout();
  panel.paint(pen, { x: 0, y: 0, w: 600, h: 140 }, { position: model.longest });
  assert.ok(said.includes("line, and in brackets: FlashAttention-2"));
  assert.ok(said.includes("128 B (64 B)"), said.join("; ")); // Q by two programs; its schedule here loads one
});
