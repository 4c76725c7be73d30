// A payload small enough to count by hand: 4 queries in 2 tiles, 6 keys in 2 tiles of which the last is half as wide.

import assert from "node:assert/strict";

const ARRAYS = {
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  int16: Int16Array,
  int32: Int32Array,
  float32: Float32Array,
};

/** Header and arrays, each [type, values], laid out as app/canvas/pack.py says. */
export function pack(header, arrays) {
  const listing = [],
    parts = [];
  let offset = 0;
  for (const [name, [type, values]] of Object.entries(arrays)) {
    const bytes = new Uint8Array(ARRAYS[type].from(values).buffer),
      padded = Math.ceil(bytes.length / 8) * 8;
    listing.push([name, type, offset, values.length]);
    parts.push([offset, bytes]);
    offset += padded;
  }
  let text = JSON.stringify({ ...header, arrays: listing });
  while ((new TextEncoder().encode(text).length + 4) % 8) text += " ";
  const head = new TextEncoder().encode(text),
    block = new Uint8Array(4 + head.length + offset);
  new DataView(block.buffer).setUint32(0, head.length, true);
  block.set(head, 4);
  for (const [at, bytes] of parts) block.set(bytes, 4 + head.length + at);
  return block;
}

const NONE = 255;
// in no order that a script could know by heart
export const OPERATIONS = "store softmax scores load accumulate maximum rescale shuffle".split(" ");
export const TENSORS = ["O", "", "V", "K", "lse", "Q", "S", "P"];
const kind = (phase, operation, tensor, read, written, microseconds, part = 1) => [
  phase,
  OPERATIONS.indexOf(operation),
  TENSORS.indexOf(tensor),
  read,
  written,
  microseconds * 1e-6,
  read * part,
  written * part,
];

// rows of 8 numbers of 2 bytes: 32 B of Q or O, 64 B of a key tile of 4 rows, 32 B of the last with 2
const KINDS = [
  kind(0, "load", "Q", 32, 0, 4),
  kind(0, "load", "K", 64, 0, 2, 0.5), // of K and V half of what is asked for crosses HBM, on the average
  kind(0, "load", "V", 64, 0, 2, 0.5),
  kind(0, "scores", "", 0, 0, 1),
  kind(0, "maximum", "", 0, 0, 1),
  kind(0, "rescale", "", 0, 0, 1),
  kind(0, "accumulate", "", 0, 0, 1),
  kind(0, "store", "O", 0, 32, 3),
  kind(0, "store", "lse", 0, 8, 1),
  kind(0, "load", "K", 32, 0, 2, 0.5),
  kind(0, "load", "V", 32, 0, 2, 0.5),
];
const VISITS = [
  [1, 2, 3, 4, 5, 6],
  [9, 10, 3, 4, 5, 6],
]; // kinds of the visit of each key tile

/** The steps where query tiles are outside, key tiles in this order, by column. */
function steps(order) {
  const rows = [0, 1].flatMap((i) => {
    const visits = order.flatMap((j) => VISITS[j].map((kind) => [kind, i, j]));
    return [[0, i, NONE], ...visits, [7, i, NONE], [8, i, NONE]];
  });
  return ["kind", "query", "key"].map((name, n) => [`toy.${name}`, ["uint8", rows.map((row) => row[n])]]);
}

export const PHASE = {
  name: "attention",
  outer: "query",
  reverse: false,
  loads: ["Q", "K", "V"],
  leaves: "all",
  wholeRows: false,
  gathers: true,
  carries: true,
  parts: [
    ["Q", "Q", 32],
    ["S", "S", 32],
  ],
};
export const RUN = {
  title: "a toy",
  rows: "online",
  unfused: false,
  visitsHidden: false,
  rewrites: false,
  specialised: false,
  overlapped: false,
  phases: [PHASE],
  kinds: KINDS,
};
const SHAPE = { heads: 1, seq_q: 4, seq_kv: 6, head_dim: 8, v_dim: 8, block_q: 2, block_kv: 4 };
const SIZE = { ...SHAPE, itemsize: 2, stored: 2, seen: [] };

/** The payload of a run like flash2 called "toy", with what differs from it. */
export function toy({ run = {}, header = {}, arrays = {}, order = [0, 1] } = {}) {
  const whole = {
    algorithm: "toy",
    agreement: "",
    agrees: true,
    asked: SIZE,
    drawn: SIZE,
    chip: { name: "H200", capacity: 1024 },
    misfits: {},
    operations: OPERATIONS,
    tensors: TENSORS,
    against: { title: "standard", total: 1056, crossing: 1008 },
    all: { requested: 528, crossing: 336 },
    runs: { toy: { ...RUN, ...run } },
    ...header,
  };
  return pack(whole, {
    ...Object.fromEntries(steps(order)),
    first: ["uint16", [0, 0]],
    stop: ["uint16", [2, 2]],
    full_first: ["uint16", [0, 0]],
    full_stop: ["uint16", [2, 1]],
    rows: ["uint32", [0, 1, 3]],
    m: ["float32", [1, 1.5, 2, 2, -1, 0.25]],
    l: ["float32", [2, 1.75, 1, 3, 1.5, 2.5]],
    alpha: ["float32", [0, 0.625, 0, 1, 0, 0.25]],
    lse: ["float32", [1.75, 2, 2, 3, -0.5, 1.25]],
    share: ["float32", [0.75, 0.25, 0.5, 0.5]],
    ...arrays,
  });
}

/** What a call makes of each of some values. */
export const each = (values, call, expected) =>
  assert.deepEqual(
    values.map((value) => call(value)),
    expected,
  );
