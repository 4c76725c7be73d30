// Numbers as the moving pictures say them.

import assert from "node:assert/strict";
import test from "node:test";
import {
  capital,
  decimal,
  duration,
  factor,
  grouped,
  inKb,
  percent,
  plural,
  roundStep,
  subscript,
  sum,
  times,
  traffic,
  wholePercent,
} from "../../app/canvas/format.js";
import { microseconds } from "../../app/gpu/chart.js";

const SAID = [
  [
    percent,
    [
      [0, "0%"],
      [0.0004, "<0.1%"],
      [0.004, "0.40%"],
      [0.5, "50%"],
      [0.994, "99%"],
      [0.996, ">99%"],
      [1, "100%"],
    ],
  ],
  [
    wholePercent,
    [
      [0, "0%"],
      [0.004, "<1%"],
      [0.016, "2%"],
      [0.5, "50%"],
      [0.9996, ">99%"],
      [0.9999999, "100%"],
    ],
  ],
  [
    traffic,
    [
      [0, "0 B"],
      [999, "999 B"],
      [1000, "1.00 kB"],
      [999_400, "999 kB"],
      [999_600, "1.00 MB"],
      [4_456_448, "4.46 MB"],
      [1e9, "1.00 GB"],
      [999.6e9, "1.00 TB"],
      [70_368_744_177_664, "70.4 TB"],
      [3.7e19, "37.0 EB"],
    ],
  ],
  [
    duration,
    [
      [0, "0.00 µs"],
      [2.5e-6, "2.50 µs"],
      [999.4e-6, "999 µs"],
      [999.6e-6, "1.00 ms"],
      [0.9996, "1.00 s"],
    ],
  ],
  [
    inKb,
    [
      [64, "0.0640"],
      [232_448, "232"],
    ],
  ],
  [
    grouped,
    [
      [0, "0"],
      [999, "999"],
      [1000, "1,000"],
      [1_048_576, "1,048,576"],
      [999.6, "1,000"],
    ],
  ],
  [
    decimal,
    [
      [-0.001, "0.00"],
      [-1.5, "−1.50"],
      [2, "2.00"],
      [-Infinity, "−∞"],
      [Infinity, "∞"],
      [NaN, "–"],
    ],
  ],
  [
    factor,
    [
      [0, "0.00"],
      [1, "1.00"],
      [0.99999, "0.9999"],
      [0.5, "0.50"],
      [0.005, "0.0050"],
      [1e-5, "<0.0001"],
      [NaN, "–"],
    ],
  ],
  [
    sum,
    [
      [NaN, "–"],
      [1, "1.00"],
      [63.96, "64.0"],
      [2.5e6, "2.50e+6"],
    ],
  ],
  [
    times,
    [
      [1.04, "1.0"],
      [3.26, "3.3"],
      [99.94, "99.9"],
      [1234.4, "1,234"],
    ],
  ],
  [
    subscript,
    [
      [0, "₀"],
      [127, "₁₂₇"],
    ],
  ],
  [
    capital,
    [
      ["standard", "Standard"],
      ["α of a row", "Α of a row"],
    ],
  ],
];

for (const [call, said] of SAID) {
  test(`${call.name} says numbers as they are`, () => {
    assert.deepEqual(
      said.map(([value]) => call(value)),
      said.map(([, words]) => words),
    );
  });
}

test("a number of things takes their plural unless it is one", () => {
  assert.equal(plural(1, "tile"), "1 tile");
  assert.equal(plural(0, "tile"), "0 tiles");
  assert.equal(plural(4096, "query", "queries"), "4,096 queries");
});

test("a round step cuts a span into no more parts than asked", () => {
  assert.deepEqual(
    [
      [10, 10],
      [10, 9],
      [0.07, 10],
      [1, 3],
    ].map(([span, most]) => roundStep(span, most)),
    [1, 2, 0.01, 0.5],
  );
});

test("microseconds carry over to the next whole one", () => {
  const values = [0, 2.5, 12.344, 12.996, 1234.5, 0.1 * 3 + 0.7];
  assert.deepEqual(
    values.map((value) => microseconds(value)),
    ["0.00", "2.50", "12.34", "13.00", "1,234.50", "1.00"],
  );
  assert.deepEqual(
    [0.9999999999999999, 2.96].map((value) => microseconds(value, 0.1)),
    ["1.0", "3.0"],
  );
});
