// A moment in one sentence, told from what the run is like and never from what it is called.

import assert from "node:assert/strict";
import test from "node:test";
import { BACKWARD_STORY } from "../../app/player/backward_story.js";
import { FUSED_STORY } from "../../app/player/fused_story.js";
import { Model } from "../../app/player/model.js";
import { misfitSentence, raceSentence } from "../../app/player/race.js";
import { rowState } from "../../app/player/row_state.js";
import { codeShown, sentence, stepWords } from "../../app/player/story.js";
import { each } from "./each.js";
import { OPERATIONS, PHASE, RUN, TENSORS, toy } from "./payload.js";

const model = new Model(toy()),
  { run } = model;
const said = (step, index = 0) => sentence(model, run, step, index);
const NO = 255; // on no tile
const ROW = 2; // a sampled row of query tile 1, by its index

test("it opens with the problem and closes with what was asked for, beside another run", () => {
  assert.equal(
    said(-1),
    "One head has 4 queries and 6 keys, in 2 × 2 tiles. Each query tile stays on the chip while the key tiles pass by.",
  );
  assert.equal(
    said(30),
    "Done. This head's tiles requested 528 B, 2.0 times less than standard attention. " +
      "Only 336 B of that had to come from or go to HBM (modelled): 3.0 times less.",
  );
});

test("each step of a visit says its own numbers, and none of the step after it", () => {
  assert.equal(
    said(15),
    "Query tile 1 is loaded onto the chip: 2 rows, 32 B. It stays while the key tiles that it sees pass by.",
  );
  assert.equal(said(22), "Key tile 1 is loaded from L2 or HBM for query tile 1: 2 rows, 32 B.");
  assert.equal(said(23), "Value tile 1 is loaded with its key tile: 2 rows, 32 B.");
  assert.equal(
    said(24, ROW),
    "Query tile 1 meets key tile 1. S = Q Kᵀ · scale gives 2 × 2 scores. The mask hides part of them.",
  );
  assert.equal(
    said(18, ROW),
    "Query tile 1 meets key tile 0. S = Q Kᵀ · scale gives 2 × 4 scores. They never leave the chip.",
  );
  assert.equal(
    said(19, ROW),
    "Query tile 1 meets key tile 0. The largest score of row 3 is −1.00, which becomes its first maximum m.",
  );
  assert.equal(
    said(25, ROW),
    "Query tile 1 meets key tile 1. Row 3 finds a larger score, so its maximum m rises from −1.00 to 0.25.",
  );
  assert.match(
    said(26, ROW),
    /rises from −1\.00 to 0\.25, so everything accumulated so far is multiplied by α = 0\.25 before this tile is added\.$/,
  );
  assert.match(
    said(11, 1),
    /The maximum of row 1 stays at 2\.00, so α = 1 and nothing accumulated so far changes\.$/,
  );
  assert.match(
    said(27, ROW),
    /For row 3, l becomes α · 1\.50 \+ this tile's sum = 2\.50\. This tile now makes up 85% of what O has accumulated\.$/,
  );
  assert.equal(
    said(28, ROW),
    "Query tile 1 has seen all its keys, so O is divided by l once and written to HBM once: 32 B.",
  );
  assert.match(said(29, ROW), /^Its log-sum-exp, m \+ log l, is 1\.25 for row 3\. These 8 B let/);
});

test("a small rise and a tiny α are told as what they are", () => {
  const rescaled = (m, alpha) => {
    const arrays = { m: ["float32", [1, 1.5, 2, 2, -1, m]], alpha: ["float32", [0, 0.625, 0, 1, 0, alpha]] };
    const other = new Model(toy({ arrays }));
    return sentence(other, other.run, 26, ROW);
  };
  assert.match(rescaled(-0.999, 0.999), /rises from −1\.000 to −0\.999, .* multiplied by α = 0\.9990 before/);
  assert.match(rescaled(11, 6e-6), /rises from −1\.00 to 11\.00, .* multiplied by α < 0\.0001 before/);
});

test("where L2 answers nothing, what crosses HBM is all that was asked for", () => {
  const close = (crossing) =>
    FUSED_STORY.closing({ against: model.against }, { ...run, total: 528, crossing });
  assert.match(close(528), /\. All of that had to come from or go to HBM \(modelled\): 1\.9 times less\.$/);
  assert.match(close(500), /\. Only 500 B of that had to/);
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
  const expected = {
    "-1": undefined,
    0: "load Q[i];  m = −∞;  l = 0;  O = 0",
    1: "load K[j]",
    2: "load V[j]",
    3: "S = Q Kᵀ · scale",
    4: "m′ = max(m, rowmax S)",
    5: "α = exp(m − m′);  P = exp(S − m′)",
    6: "l = α l + rowsum P;  O = α O + P V",
    13: "store O = O / l",
    14: "store lse = m + log l",
    30: undefined,
  };
  for (const [step, line] of Object.entries(expected)) assert.equal(lit(Number(step)), line, step);
});

test("copies that run ahead and products beside the softmax are in the lines where the run has them", () => {
  const phases = [{ ...PHASE, reverse: true }];
  const ahead = new Model(toy({ run: { phases, specialised: true, overlapped: true }, order: [1, 0] }));
  const [lines] = codeShown(ahead.run, -1);
  assert.deepEqual(lines.slice(2, 6), [
    "  for key tiles j, from the last:",
    "    load K[j]   by TMA, ahead",
    "    load V[j]   by TMA, ahead",
    "    S = Q Kᵀ · scale   beside P V",
  ]);
  assert.match(
    sentence(ahead, ahead.run, -1, 0),
    /the last first\. The page of this algorithm shows what runs at the same time\.$/,
  );
});

test("key tiles outside have their own story", () => {
  const phases = [{ ...PHASE, outer: "key", gathers: false, carries: false }];
  const outside = new Model(toy({ run: { phases, rewrites: true } }));
  assert.match(
    sentence(outside, outside.run, -1, 0),
    /Each key tile stays on the chip while the query tiles pass by\.$/,
  );
  assert.match(
    sentence(outside, outside.run, 28, ROW),
    /^O of query tile 1 is not finished, but it must make room: 32 B are written back/,
  );
});

test("unfused attention is compared with the run that it is given", () => {
  const phases = ["scores", "softmax", "output"].map((name) => ({ ...PHASE, name }));
  const against = { title: "a fused run", total: 264, crossing: 112 };
  const unfused = new Model(
    toy({ run: { phases, rows: "whole", unfused: true, title: "standard" }, header: { against } }),
  );
  assert.equal(
    sentence(unfused, unfused.run, 30, 0),
    "Done. This head's tiles requested 528 B, a fused run's 264 B: 2.0 times less. " +
      "336 B had to come from or go to HBM (modelled), with a fused run 112 B: 3.0 times less.",
  );
  assert.equal(
    sentence(unfused, unfused.run, 3, 0),
    "Kernel 1 of 3: query tile 0 meets key tile 0. S = Q Kᵀ · scale gives 2 × 4 scores.",
  );
});

test("a step that no story knows is told plainly", () => {
  const kinds = RUN.kinds.map((row, n) =>
    n === 3 ? [0, OPERATIONS.indexOf("shuffle"), TENSORS.indexOf("P"), 1024, 0, 1] : row,
  );
  const odd = new Model(toy({ run: { kinds } }));
  assert.equal(sentence(odd, odd.run, 3, 0), "Query tile 0, key tile 0: shuffle P, 1.02 kB.");
  assert.equal(codeShown(odd.run, 3)[1], -1);
});

test("a step's few words name what it moves or makes", () => {
  each([-1, 0, 3, 14, 30], (step) => stepWords(run, step), [
    "before the first step",
    "load Q",
    "scores",
    "store lse",
    "done",
  ]);
});

test("the backward pass is compared with the unfused one by what it asks", () => {
  const drawn = { block_q: 16, block_kv: 32 };
  const close = (asked, total) =>
    BACKWARD_STORY.closing({ against: { title: "standard", total }, drawn }, { total: asked, crossing: 0 });
  assert.ok(
    close(1e6, 3e6).endsWith("Standard attention, which stores P, must move 3.00 MB, 3.0 times as much."),
  );
  assert.ok(close(1e6, 1.02e6).endsWith("must move 1.02 MB, about as much."));
  assert.ok(close(4e6, 1e6).endsWith("must move 1.00 MB, 4.0 times less than blocks of 16 × 32 request."));
});

test("the race names who is done, who is not, and who cannot start", () => {
  const runs = {
    a: { title: "one", time: 1e-6 },
    b: { title: "two", time: 4e-6, blocks: 16 },
    c: { title: "three", time: 2e-6 },
  };
  const racing = {
    runs,
    algorithms: ["a", "b", "c"],
    finishing: ["a", "b"],
    misfits: { c: ["Does not fit", "needs 2 KiB", "a GPU has 1 KiB"] },
    chip: { name: "GPU", sms: 16 },
  };
  assert.equal(
    raceSentence(racing, 0),
    "2 algorithms compute one head in the same tiles, on one clock of modelled time. Which is done first? Three does not fit.",
  );
  assert.equal(
    raceSentence(racing, 2e-6),
    "One was done after 1.00 µs; two is 50% through. Three does not fit.",
  );
  assert.equal(
    raceSentence(racing, 4e-6),
    "One finished first, after 1.00 µs: 4.0 times as fast as two (4.00 µs, both modelled). Three does not fit.",
  );
  const many = { ...racing, chip: { name: "GPU", sms: 132 } };
  assert.match(
    raceSentence(many, 4e-6),
    /as two \(4\.00 µs, both modelled\), whose 16 thread blocks are too few for 132 SMs\. Three does not fit\.$/,
  );
  assert.match(raceSentence({ ...racing, finishing: [] }, 0), /^None of the three fits the GPU/);
  const two = { ...racing, finishing: [], algorithms: ["a", "b"] };
  assert.match(raceSentence(two, 0), /^Neither of the two fits the GPU/);
  assert.equal(misfitSentence(racing.misfits.c), "Does not fit: it needs 2 KiB, but a GPU has 1 KiB.");
});

test("split keys begin anew in every part, and are merged by a second kernel", () => {
  const phases = [PHASE, { ...PHASE, name: "combine", wholeRows: false }],
    visit = (j) => [[0, 0, NO], ...[1, 2, 3, 4, 5, 6].map((kind) => [kind, 0, j]), [7, 0, NO]],
    steps = [...visit(0), ...visit(1), [RUN.kinds.length, 0, NO]],
    column = (n) => ["uint8", steps.map((row) => row[n])];
  const combine = [1, OPERATIONS.length, 1, 0, 0, 0, 0, 0];
  const split = new Model(
    toy({
      run: { splits: 2, phases, kinds: [...RUN.kinds, combine] },
      header: { operations: [...OPERATIONS, "combine"] },
      arrays: {
        "toy.kind": column(0),
        "toy.query": column(1),
        "toy.key": column(2),
        whole: ["float32", [9, 9, 9]],
      },
    }),
  );
  assert.deepEqual(
    split.run.parts.map(({ start, first, stop }) => [start, first, stop]),
    [
      [0, 0, 1],
      [8, 1, 2],
    ],
  );
  const at = (step) => rowState(split, split.run, step, 0);
  assert.deepEqual([at(6).m, at(9).m, at(9).done], [1, -Infinity, -1]); // the second part knows nothing of the first
  assert.deepEqual([at(16).lse, at(16).m], [9, NaN]);
  assert.match(
    sentence(split, split.run, 8, 0),
    /^Part 1 has key tiles 1 to 1\. Its thread block loads 32 B of Q/,
  );
  assert.match(sentence(split, split.run, 16, 0), /^Every part's O is multiplied by exp\(lse − m\)/);
});
