// What a call makes of each of some values.

import assert from "node:assert/strict";

export const each = (values, call, expected) =>
  assert.deepEqual(
    values.map((value) => call(value)),
    expected,
  );
