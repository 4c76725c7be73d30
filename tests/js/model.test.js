// What the picture asks of a payload, against numbers that were counted by hand.

import assert from "node:assert/strict";
import test from "node:test";
import { Model } from "../../app/player/model.js";
import { each } from "./each.js";
import { toy } from "./payload.js";

const model = new Model(toy()),
  { run } = model;
const near = (value, expected) =>
  assert.ok(Math.abs(value - expected) < 1e-12, `${value} is not ${expected}`);

test("steps have the names that the header gives their numbers", () => {
  assert.equal(run.steps, 30); // for each query tile: Q, 2 visits of 6 steps, O and lse
  each([0, 3, 6, 13], (step) => run.operation(step), ["load", "scores", "accumulate", "store"]);
  each([0, 1, 2, 3, 13, 14], (step) => run.tensor(step), ["Q", "K", "V", "", "O", "lse"]);
});

test("bytes add up step by step, from none to all", () => {
  each([-1, 0, 1, 2, 6, 8], (step) => run.readAt(step), [0, 32, 96, 160, 160, 224]);
  each([12, 13, 14, 29, 30, 99], (step) => run.writtenAt(step), [0, 32, 40, 80, 80, 80]);
  assert.equal(run.total, 528);
});

test("what crosses HBM adds up beside what is requested from L2", () => {
  each([-1, 0, 1, 2, 8, 30], (step) => run.readAt(step, "crossing"), [0, 32, 64, 96, 128, 256]);
  assert.deepEqual([run.writtenAt(30, "crossing"), run.crossing], [80, 336]);
});

test("a run on tiles of its own has its own grid, and the others keep theirs", () => {
  const own = new Model(
    toy({
      run: { tile: { block_q: 4, block_kv: 2 } },
      arrays: {
        "toy.first": ["uint16", [0]],
        "toy.stop": ["uint16", [3]],
        "toy.share": ["float32", [0.5, 0.25, 0.25]],
        "toy.rows": ["uint32", [1, 2]],
      },
    }),
  );
  const tiles = own.on(own.run);
  assert.deepEqual([tiles.queryBlocks, tiles.keyBlocks, tiles.visible], [1, 3, 3]);
  assert.deepEqual([tiles.keyRows(2), tiles.share(0, 1), tiles.rowStart], [2, 0.25, [0, 2]]);
  assert.deepEqual([own.queryBlocks, own.keyBlocks, own.share(0, 0)], [2, 2, 0.75]);
  assert.equal(model.on(run), model);
});

test("seconds add up, and each moment has its step", () => {
  near(run.timeAt(0), 4e-6);
  near(run.timeAt(2), 8e-6);
  near(run.time, 48e-6); // two query tiles of 4 + 8 + 8 + 4
  each([-1, 0, 1e-6, 4e-6, 4.1e-6, 47.5e-6, 48e-6, 1], (at) => run.stepAt(at), [-1, -1, 0, 0, 1, 29, 30, 30]);
  near(run.phaseEnds[0], run.time);
});

test("visits begin with their first load, and end with their query tile", () => {
  assert.equal(run.visits, 4);
  assert.deepEqual(run.visitStart, [1, 7, 16, 22]);
  assert.deepEqual(run.outerStart, [0, 15]);
  each([0, 1, 6, 7, 13], (step) => run.visit[step], [-1, 0, 0, 1, -1]);
  each([-1, 0, 1, 12, 15, 29, 30], (step) => run.visitedBy(step), [0, 0, 1, 2, 2, 4, 4]);
  assert.deepEqual([run.outerOf[14], run.outerOf[15]], [0, 1]);
});

test("a visit has reached what came in it, not what is still to come", () => {
  assert.equal(run.reached(4, "maximum"), true);
  assert.equal(run.reached(3, "maximum"), false);
  assert.equal(run.reached(9, "maximum"), false); // that of the visit before does not count
});

test("a tile's bytes are those of its own steps", () => {
  assert.deepEqual(run.bytesOfTile(0, 0), [128, 0]);
  assert.deepEqual(run.bytesOfTile(1, 1), [64, 0]);
});

test("tiles have the rows that there are, the last ones fewer", () => {
  assert.deepEqual([model.queryBlocks, model.keyBlocks], [2, 2]);
  assert.deepEqual([model.keyRows(0), model.keyRows(1), model.queryRows(1)], [4, 2, 2]);
  assert.equal(model.visible, 4);
  assert.deepEqual([model.partial(0, 1), model.partial(1, 1), model.seen(1, 2)], [false, true, false]);
});

test("sampled rows are found by their block, by their place in it, and by the row of the problem", () => {
  each([0, 1, 2], (index) => model.blockOf(index), [0, 0, 1]);
  assert.deepEqual(
    [model.rowOf(0, 0), model.rowOf(0, 0.5), model.rowOf(0, 1), model.rowOf(1, 0.9)],
    [0, 1, 1, 2],
  );
  each([0, 1, 2, 3, 99], (row) => model.nearest(row), [0, 1, 1, 2, 2]);
});

test("what a row knows after a tile is what the server computed, and before the first nothing", () => {
  assert.deepEqual(model.after(0, -1), { m: -Infinity, l: 0, alpha: NaN, lse: -Infinity });
  assert.deepEqual(model.after(0, 1), { m: 1.5, l: 1.75, alpha: 0.625, lse: 2 });
  assert.deepEqual(model.after(2, 0), { m: -1, l: 1.5, alpha: 0, lse: -0.5 });
});

test("where key tiles come from the last to the first, before the first is past the last", () => {
  const phases = [{ ...run.phases[0], reverse: true }];
  const back = new Model(toy({ run: { phases }, order: [1, 0] }));
  assert.equal(back.after(0, 2).l, 0);
  assert.equal(back.after(0, 1).m, 1.5);
  assert.equal(back.after(0, 0).m, 1);
});

test("a row that is reduced whole knows one value for all tiles", () => {
  const whole = {
    m: ["float32", [3, 4, 5]],
    l: ["float32", [1, 1, 2]],
    alpha: ["float32", [NaN, NaN, NaN]],
    lse: ["float32", [3, 4, 6]],
  };
  const unfused = new Model(toy({ arrays: whole }));
  assert.deepEqual([unfused.after(1, 0).m, unfused.after(1, 1).m, unfused.after(2, 1).lse], [4, 4, 6]);
});

test("who cannot run does not race", () => {
  const alone = new Model(
    toy({ header: { misfits: { toy: ["Does not fit", "needs 2 KiB", "has 1 KiB"] } } }),
  );
  assert.deepEqual([model.finishing, alone.finishing], [["toy"], []]);
  near(model.longest, 48e-6);
  near(alone.longest, 48e-6);
});
