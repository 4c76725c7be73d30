// A moment in one sentence, told from what the run is like and never from what it is called.

import assert from "node:assert/strict";
import test from "node:test";
import { BACKWARD_STORY } from "../../app/player/backward_story.js";
import { FUSED_STORY } from "../../app/player/fused_story.js";
import { Model } from "../../app/player/model.js";
import { misfitSentence, raceSentence } from "../../app/player/race.js";
import { rowState } from "../../app/player/row_state.js";
import { codeShown, sentence, stepWords } from "../../app/player/story.js";
import { each, OPERATIONS, PHASE, RUN, TENSORS, toy } from "./payload.js";

const model = new Model(toy()),
  { run } = model,
  saying = (other, step, index = 0) => sentence(other, other.run, step, index);
const NO = 255; // on no tile
const ROW = 2; // a sampled row of query tile 1, by its index
const MEETS = ["Query tile 1 meets key tile 0. ", "Query tile 1 meets key tile 1. "];

test("each step of a visit says its own numbers, and none of the step after it", () => {
  const told = [
    [-1, 0, /^One head has 4 queries and 6 keys, in 2 × 2 tiles\. Each query tile stays on the chip while/],
    [15, 0, /^Query tile 1 is loaded onto the chip: 2 rows, 32 B\. It stays while the key tiles/],
    [22, 0, /^Key tile 1 is loaded from L2 or HBM for query tile 1: 2 rows, 32 B\.$/],
    [23, 0, /^Value tile 1 is loaded with its key tile: 2 rows, 32 B\.$/],
    [24, ROW, `${MEETS[1]}S = Q Kᵀ · scale gives 2 × 2 scores. The mask hides part of them.`],
    [18, ROW, `${MEETS[0]}S = Q Kᵀ · scale gives 2 × 4 scores. They never leave the chip.`],
    [19, ROW, `${MEETS[0]}The largest score of row 3 is −1.00, which becomes its first maximum m.`],
    [25, ROW, `${MEETS[1]}Row 3 finds a larger score, so its maximum m rises from −1.00 to 0.25.`],
    [26, ROW, /rises from −1\.00 to 0\.25, so everything .* by α = 0\.25 before this tile is added\.$/],
    [11, 1, /The maximum of row 1 stays at 2\.00, so α = 1 and nothing accumulated so far changes\.$/],
    [27, ROW, /l becomes α · 1\.50 \+ this tile's sum = 2\.50\. This tile now makes up 85% of what O has/],
    [28, ROW, /^Query tile 1 has seen all its keys, so O is divided .* and written to HBM once: 32 B\.$/],
    [29, ROW, /^Its log-sum-exp, m \+ log l, is 1\.25 for row 3\. These 8 B let/],
    [30, 0, /^Done\. This head's tiles requested 528 B, 2\.0 times less than .*\. Only 336 B of that/],
  ];
  for (const [step, index, expected] of told)
    if (typeof expected === "string") assert.equal(saying(model, step, index), expected);
    else assert.match(saying(model, step, index), expected);
  const words = ["before the first step", "load Q", "scores", "store lse", "done"];
  each([-1, 0, 3, 14, 30], (step) => stepWords(run, step), words);
});

test("a row's state changes with the step that changes it, not one earlier", () => {
  const at = (step) => rowState(model, run, step, ROW);
  each([24, 25, 26, 27], (step) => at(step).m, [-1, 0.25, 0.25, 0.25]);
  each([24, 25, 26, 27], (step) => at(step).alpha, [0, 0, 0.25, 0.25]);
  each([24, 25, 26, 27], (step) => at(step).l, [1.5, 1.5, 0.375, 2.5]); // l, l, α l, and with the tile
  assert.deepEqual([at(3).m, at(3).done, at(30).lse, at(30).done], [-Infinity, -1, 1.25, 1]);
});

test("the line that is lit is the step's, and there is none outside the run", () => {
  const lit = (step) => {
    const [lines, line] = codeShown(run, step);
    return lines[line]?.trim();
  };
  each([-1, 0, 1, 2, 3, 4, 5, 6, 13, 14, 30], lit, [
    ...[undefined, "load Q[i];  m = −∞;  l = 0;  O = 0", "load K[j]", "load V[j]", "S = Q Kᵀ · scale"],
    ...["m′ = max(m, rowmax S)", "α = exp(m − m′);  P = exp(S − m′)", "l = α l + rowsum P;  O = α O + P V"],
    ...["store O = O / l", "store lse = m + log l", undefined],
  ]);
});

test("what a run is like is in its lines and its sentences", () => {
  const phases = [{ ...PHASE, reverse: true }];
  const ahead = new Model(toy({ run: { phases, specialised: true, overlapped: true }, order: [1, 0] }));
  assert.deepEqual(codeShown(ahead.run, -1)[0].slice(2, 6), [
    "  for key tiles j, from the last:",
    "    load K[j]   by TMA, ahead",
    "    load V[j]   by TMA, ahead",
    "    S = Q Kᵀ · scale   beside P V",
  ]);
  assert.match(saying(ahead, -1), /the last first\. The page .* shows what runs at the same time\.$/);
  const outer = [{ ...PHASE, outer: "key", gathers: false, carries: false }],
    outside = new Model(toy({ run: { phases: outer, rewrites: true } }));
  assert.match(saying(outside, -1), /Each key tile stays on the chip while the query tiles pass by\.$/);
  assert.match(saying(outside, 28, ROW), /^O of query tile 1 is not finished, .* make room: 32 B are/);
  const kinds = RUN.kinds.with(3, [0, OPERATIONS.indexOf("shuffle"), TENSORS.indexOf("P"), 1024, 0, 1]),
    odd = new Model(toy({ run: { kinds } }));
  assert.equal(saying(odd, 3), "Query tile 0, key tile 0: shuffle P, 1.02 kB."); // a step that no story knows
  assert.equal(codeShown(odd.run, 3)[1], -1);
});

test("bytes are compared with the run that is given, or with the unfused one", () => {
  const close = (crossing) =>
    FUSED_STORY.closing({ against: model.against }, { ...run, total: 528, crossing });
  assert.match(close(528), /\. All of that had to come from or go to HBM \(modelled\): 1\.9 times less\.$/);
  assert.match(close(500), /\. Only 500 B of that had to/);
  const phases = ["scores", "softmax", "output"].map((name) => ({ ...PHASE, name })),
    header = { against: { title: "a fused run", total: 264, crossing: 112 } },
    unfused = new Model(toy({ run: { phases, rows: "whole", unfused: true, title: "standard" }, header }));
  assert.equal(
    saying(unfused, 30),
    "Done. This head's tiles requested 528 B, a fused run's 264 B: 2.0 times less. " +
      "336 B had to come from or go to HBM (modelled), with a fused run 112 B: 3.0 times less.",
  );
  assert.match(saying(unfused, 3), /^Kernel 1 of 3: query tile 0 meets key tile 0\. S = .* gives 2 × 4/);
  const drawn = { block_q: 16, block_kv: 32 };
  const back = (asked, total) =>
    BACKWARD_STORY.closing({ against: { title: "standard", total }, drawn }, { total: asked, crossing: 0 });
  assert.match(back(1e6, 3e6), /Standard .* stores P, must move 3\.00 MB, 3\.0 times as much\.$/);
  assert.match(back(1e6, 1.02e6), /must move 1\.02 MB, about as much\.$/);
  assert.match(back(4e6, 1e6), /must move 1\.00 MB, 4\.0 times less than blocks of 16 × 32 request\.$/);
});

test("the race names who is done, who is not, and who cannot start", () => {
  const two = { title: "two", time: 4e-6, blocks: 16 };
  const racing = {
    runs: { a: { title: "one", time: 1e-6 }, b: two, c: { title: "three", time: 2e-6 } },
    algorithms: ["a", "b", "c"],
    finishing: ["a", "b"],
    misfits: { c: ["Does not fit", "needs 2 KiB", "a GPU has 1 KiB"] },
    chip: { name: "GPU", sms: 16 },
  };
  const clock = "2 algorithms compute one head in the same tiles, on one clock of modelled time.";
  each([0, 2e-6, 4e-6], (seconds) => raceSentence(racing, seconds), [
    `${clock} Which is done first? Three does not fit.`,
    "One was done after 1.00 µs; two is 50% through. Three does not fit.",
    "One finished first, after 1.00 µs: 4.0 times as fast as two (4.00 µs, both modelled). Three does not fit.",
  ]);
  const many = { ...racing, chip: { name: "GPU", sms: 132 } };
  assert.match(raceSentence(many, 4e-6), /\), whose 16 thread blocks are too few for 132 SMs\. Three does/);
  assert.match(raceSentence({ ...racing, finishing: [] }, 0), /^None of the three fits the GPU/);
  const pair = { ...racing, finishing: [], algorithms: ["a", "b"] };
  assert.match(raceSentence(pair, 0), /^Neither of the two fits the GPU/);
  assert.equal(misfitSentence(racing.misfits.c), "Does not fit: it needs 2 KiB, but a GPU has 1 KiB.");
});

test("split keys begin anew in every part, and are merged by a second kernel", () => {
  const phases = [PHASE, { ...PHASE, name: "combine", wholeRows: false }],
    visit = (j) => [[0, 0, NO], ...[1, 2, 3, 4, 5, 6].map((kind) => [kind, 0, j]), [7, 0, NO]],
    steps = [...visit(0), ...visit(1), [RUN.kinds.length, 0, NO]],
    columns = ["kind", "query", "key"].map((name, n) => [
      `toy.${name}`,
      ["uint8", steps.map((row) => row[n])],
    ]),
    kinds = [...RUN.kinds, [1, OPERATIONS.length, 1, 0, 0, 0, 0, 0]],
    header = { operations: [...OPERATIONS, "combine"] },
    arrays = { ...Object.fromEntries(columns), whole: ["float32", [9, 9, 9]] },
    split = new Model(toy({ run: { splits: 2, phases, kinds }, header, arrays })),
    parts = split.run.parts.map(({ start, first, stop }) => [start, first, stop]);
  assert.equal(`${parts}`, "0,0,1,8,1,2");
  const at = (step) => rowState(split, split.run, step, 0);
  assert.deepEqual([at(6).m, at(9).m, at(9).done], [1, -Infinity, -1]); // the second part knows nothing of the first
  assert.deepEqual([at(16).lse, at(16).m], [9, NaN]);
  assert.match(saying(split, 8), /^Part 1 has key tiles 1 to 1\. Its thread block loads 32 B of Q/);
  assert.match(saying(split, 16), /^Every part's O is multiplied by exp\(lse − m\)/);
});
