// Numbers as the moving pictures say them.

import assert from "node:assert/strict";
import test from "node:test";
import {
  capital,
  decimal,
  duration,
  factor,
  grouped,
  inKib,
  microseconds,
  percent,
  plural,
  rate,
  roundStep,
  subscript,
  sum,
  times,
  traffic,
  wholePercent,
} from "../../app/canvas/format.js";
import { each } from "./payload.js";

/** What a call says of each of these numbers. */
function says(call, values, words) {
  test(`${call.name} says numbers as they are`, () => each(values, call, words));
}

says(percent, [0, 0.0004, 0.004, 0.5], ["0%", "<0.1%", "0.40%", "50%"]);
says(percent, [0.994, 0.996, 1], ["99%", ">99%", "100%"]);
says(wholePercent, [0, 0.004, 0.016, 0.5, 0.9996, 0.9999999], ["0%", "<1%", "2%", "50%", ">99%", "100%"]);
says(traffic, [0, 999, 1000, 999_400, 999_600], ["0 B", "999 B", "1.00 kB", "999 kB", "1.00 MB"]);
says(traffic, [4_456_448, 1e9, 999.6e9, 3.7e19], ["4.46 MB", "1.00 GB", "1.00 TB", "37.0 EB"]);
says(traffic, [228 * 1024, 60 * 2 ** 20, 141e9], ["233 kB", "62.9 MB", "141 GB"]);
says(inKib, [64, 4096, 232_448], ["64 B", "4.00 KiB", "227 KiB"]);
says(duration, [0, 2.5e-6, 999.4e-6, 999.6e-6], ["0.00 µs", "2.50 µs", "999 µs", "1.00 ms"]);
says(duration, [0.9996, 90, 150, 7300, 690_170], ["1.00 s", "90.0 s", "2.50 min", "2.03 h", "7.99 days"]);
says(grouped, [0, 999, 1000, 1_048_576, 999.6], ["0", "999", "1,000", "1,048,576", "1,000"]);
says(decimal, [-0.001, -1.5, 2, -Infinity, Infinity, NaN], ["0.00", "−1.50", "2.00", "−∞", "∞", "–"]);
says(factor, [0, 1, 0.99999, 0.5], ["0.00", "1.00", "0.9999", "0.50"]);
says(factor, [0.005, 1e-5, NaN], ["0.0050", "<0.0001", "–"]);
says(rate, [4.8e12, 15.46e12, 936e9], ["4.8 TB/s", "15.5 TB/s", "0.94 TB/s"]);
says(sum, [NaN, 1, 63.96, 2.5e6], ["–", "1.00", "64.0", "2.50e+6"]);
says(times, [1.04, 3.26, 99.94, 1234.4], ["1.0", "3.3", "99.9", "1,234"]);
says(subscript, [0, 127], ["₀", "₁₂₇"]);
says(capital, ["standard", "α of a row"], ["Standard", "Α of a row"]);

test("a number of things takes their plural unless it is one", () => {
  assert.equal(plural(1, "tile"), "1 tile");
  assert.equal(plural(0, "tile"), "0 tiles");
  assert.equal(plural(4096, "query", "queries"), "4,096 queries");
});

test("a round step cuts a span into no more parts than asked", () => {
  each([10, 9], (parts) => roundStep(10, parts), [1, 2]);
  each([0.07, 4], (span) => roundStep(span, 10), [0.01, 0.5]);
});

test("microseconds carry over to the next whole one", () => {
  const values = [0, 2.5, 12.344, 12.996, 1234.5, 0.1 * 3 + 0.7];
  each(values, microseconds, ["0.00", "2.50", "12.34", "13.00", "1,234.50", "1.00"]);
  each([0.9999999999999999, 2.96], (value) => microseconds(value, 0.1), ["1.0", "3.0"]);
});
