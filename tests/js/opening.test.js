// The squares of the opening picture: as many as the bytes ask for, in order, and none before its kernel.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bytesOf,
  flightsOf,
  inFlight,
  movedAt,
  paceOf,
  RUN,
  secondsOf,
  TRAVEL,
} from "../../app/start/loop.js";

const stored = {
  kernels: [
    { seconds: 1, read: 20, written: 100, of: ["QK", "S"] },
    { seconds: 3, read: 100, written: 110, of: ["S", "P"] },
  ],
};
const fused = { kernels: [{ seconds: 2, read: 30, written: 8, of: ["QKV", "O"] }] };
const data = { flight: 4, keys: 32, width: 1 };

test("the longer run takes the loop's running time", () => {
  assert.equal(paceOf([stored, fused]) * RUN, secondsOf(stored));
  assert.equal(bytesOf(stored), 330);
});

test("a square sets out for every four bytes, in its kernel's time", () => {
  const pace = paceOf([stored, fused]);
  const { read, written } = flightsOf(stored, data, pace);
  assert.equal(read.length, 30);
  assert.equal(written.length, 53);
  const first = read.slice(0, 5);
  assert.ok(first.every(({ at, tensor }) => at * pace <= 1 && "QK".includes(tensor)));
  assert.ok(read.slice(5).every(({ at, tensor }) => at * pace >= 1 && tensor === "S"));
  for (let n = 1; n < written.length; n++) assert.ok(written[n].at >= written[n - 1].at);
  assert.deepEqual(new Set(flightsOf(fused, data, pace).read.map(({ tensor }) => tensor)), new Set("QKV"));
});

test("bytes so far end at the totals, and squares arrive", () => {
  const { read, written, shares } = movedAt(stored, 2.5);
  assert.ok(Math.abs(read - 70) < 1e-9 && Math.abs(written - 155) < 1e-9);
  assert.deepEqual(shares, [1, 0.5]);
  assert.equal(movedAt(fused, 99).read + movedAt(fused, 99).written, bytesOf(fused));
  const flights = [{ at: 0, tensor: "Q" }];
  assert.deepEqual(inFlight(flights, TRAVEL / 2), [{ share: 0.5, tensor: "Q", n: 0 }]);
  assert.deepEqual(inFlight(flights, TRAVEL), []);
});
