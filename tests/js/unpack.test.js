// Bytes as the server packs them.

import assert from "node:assert/strict";
import test from "node:test";
import { equalBytes, unpack } from "../../app/canvas/unpack.js";
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

test("an empty array stays one", () => {
  const { arrays } = unpack(pack({}, { none: ["float32", []], one: ["uint8", [9]] }));
  assert.deepEqual([arrays.none.length, [...arrays.one]], [0, [9]]);
});

test("bytes are equal where all are", () => {
  const block = pack({ a: 1 }, { b: ["uint8", [1, 2]] }),
    other = block.slice();
  assert.ok(equalBytes(block, other));
  other[other.length - 1] ^= 1;
  assert.ok(!equalBytes(block, other));
  assert.ok(!equalBytes(block, block.subarray(1)));
});
