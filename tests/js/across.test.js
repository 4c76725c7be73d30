// A ring of two GPUs, small enough to follow by hand: who is idle, what waits, where a block comes from.

import assert from "node:assert/strict";
import test from "node:test";
import { Runs } from "../../app/across/run.js";
import { sentence } from "../../app/across/story.js";
import { merged } from "../../app/canvas/spans.js";
import { each, pack } from "./payload.js";

const KINDS = ["computing", "transfer", "network", "merging", "packing"];
const about = {
  name: "Plain order",
  ring: true,
  hosts: false,
  host: 8,
  owners: [0, 1],
  length: 25,
  oneGpu: 40,
  efficiency: 0.8,
  block: 64,
  origin: "modelled",
};

/** GPU 0 computes its own keys for 10; GPU 1 its own, then those of GPU 0, which come from 0 to 4; both merge. */
function small(more = {}) {
  const marks = {
    gpu: ["uint8", [0, 1, 1, 1, 0, 1]],
    kind: ["uint8", [0, 0, 1, 0, 3, 3]],
    round: ["int16", [0, 0, 1, 1, 2, 2]],
    owner: ["int16", [0, 1, 0, 0, 0, 1]],
    start: ["float32", [0, 0, 0, 10, 20, 20]],
    end: ["float32", [10, 10, 4, 20, 25, 25]],
    tileFrom: ["int32", [0, 1, 2, 2, 3, 3, 3]],
    tileQuery: ["uint8", [0, 1, 1]],
    tileKey: ["uint8", [0, 1, 0]],
  };
  const header = { gpus: 2, causal: true, kinds: KINDS, runs: [{ ...about, ...more }] };
  const columns = Object.entries(marks).map(([name, mark]) => [`run0.${name}`, mark]);
  return new Runs(pack(header, Object.fromEntries(columns)));
}

test("a block that has arrived waits beside its GPU until it is used", () => {
  const [run] = small().runs;
  assert.deepEqual(run.waiting(2), []);
  assert.deepEqual(run.waiting(5), [2]);
  assert.deepEqual(run.waiting(12), []);
});

test("a GPU without keys to see is idle, and the sentence says why", () => {
  const model = small(),
    [run] = model.runs;
  assert.deepEqual(run.idle(2, 5), []);
  assert.deepEqual(run.idle(2, 12), [0]);
  assert.match(sentence(model, run, 5), /^Plain order, round 1 of 2: every GPU computes with its own keys\./);
  assert.match(sentence(model, run, 12), /1 of 2 GPUs compute .* GPU 0 is idle, because its queries see/);
  assert.match(sentence(model, run, 22), /merges the m, l and O/);
  assert.equal(
    sentence(model, run, 25),
    "Plain order: 2 GPUs take 25.0 µs, 1.6 times as fast as one GPU (40.0 µs). Efficiency 80%, modelled.",
  );
});

test("arrows lead to what starts or ends next, or did last", () => {
  const [run] = small().runs;
  each([0, 4, 5, 25], (time) => run.eventBeside(time, 1), [4, 10, 10, Infinity]);
  each([0, 4, 5, 25], (time) => run.eventBeside(time, -1), [0, 0, 4, 20]);
  const [late, early, apart] = [4, 0, 9].map((start) => [start, start + 4]);
  assert.deepEqual(merged([late, early, apart]).flat(), [0, 8, 9, 13]);
});

test("in a ring of hosts a block comes from the GPU of the own host that fetched it", () => {
  const [run] = small({ hosts: true, host: 1 }).runs;
  assert.equal(small().runs[0].sourceOf(2), 0);
  assert.equal(run.sourceOf(2), 1);
});
