// What the picture asks of a payload, against numbers that were counted by hand.

import assert from "node:assert/strict";
import test from "node:test";
import { flightsOf } from "../../app/player/memory_panel.js";
import { Model } from "../../app/player/model.js";
import { each, toy } from "./payload.js";

const model = new Model(toy()),
  { run } = model; // for each query tile: Q, 2 visits of K, V and 4 steps of arithmetic, O, lse
const near = (value, expected) =>
  assert.ok(Math.abs(value - expected) < 1e-12, `${value} is not ${expected}`);

test("steps have the names that the header gives their numbers, and their bytes add up", () => {
  assert.equal(run.steps, 30);
  each([0, 3, 6, 13], (step) => run.operation(step), ["load", "scores", "accumulate", "store"]);
  each([0, 1, 2, 3, 13, 14], (step) => run.tensor(step), ["Q", "K", "V", "", "O", "lse"]);
  each([-1, 0, 1, 2, 6, 8], (step) => run.readAt(step), [0, 32, 96, 160, 160, 224]);
  each([12, 13, 14, 29, 30, 99], (step) => run.writtenAt(step), [0, 32, 40, 80, 80, 80]);
  each([-1, 0, 1, 2, 8, 30], (step) => run.readAt(step, "crossing"), [0, 32, 64, 96, 128, 256]);
  assert.deepEqual([run.total, run.writtenAt(30, "crossing"), run.crossing], [528, 80, 336]);
  each([0, 1, 3, 13], (step) => run.crossingOf(step), [1, 0.5, 0, 1]);
  each([-1, 12, 13, 27, 28, 30], (step) => run.storedAt("O", step), [0, 0, 0.5, 0.5, 1, 1]);
  assert.deepEqual(Object.keys(run.stored), ["O", "lse"]);
});

test("a run on tiles of its own has its own grid, and the others keep theirs", () => {
  const arrays = {
    "toy.first": ["uint16", [0]],
    "toy.stop": ["uint16", [3]],
    "toy.share": ["float32", [0.5, 0.25, 0.25]],
    "toy.rows": ["uint32", [1, 2]],
  };
  const own = new Model(toy({ run: { tile: { block_q: 4, block_kv: 2 } }, arrays })),
    tiles = own.on(own.run);
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

test("visits begin with their first load, end with their query tile, and reach one step after the other", () => {
  assert.equal(run.visits, 4);
  assert.deepEqual([run.visitStart, run.outerStart].flat(), [1, 7, 16, 22, 0, 15]);
  each([0, 1, 6, 7, 13], (step) => run.visit[step], [-1, 0, 0, 1, -1]);
  each([-1, 0, 1, 12, 15, 29, 30], (step) => run.visitedBy(step), [0, 0, 1, 2, 2, 4, 4]);
  assert.deepEqual([run.outerOf[14], run.outerOf[15]], [0, 1]);
  each([4, 3, 9], (step) => run.reached(step, "maximum"), [true, false, false]); // that of the visit before does not count
});

test("tiles have the rows that there are, and sampled rows are found by block, place and row", () => {
  assert.deepEqual([model.queryBlocks, model.keyBlocks, model.visible], [2, 2, 4]);
  assert.deepEqual([model.keyRows(0), model.keyRows(1), model.queryRows(1)], [4, 2, 2]);
  assert.deepEqual([model.partial(0, 1), model.partial(1, 1), model.seen(1, 2)], [false, true, false]);
  each([0, 1, 2], (index) => model.blockOf(index), [0, 0, 1]);
  each([0, 1], (block) => model.rowOf(block), [1, 2]);
  each([0, 1, 2, 3, 99], (row) => model.nearest(row), [0, 1, 1, 2, 2]);
});

test("what a row knows after a tile is what the server computed, and before the first nothing", () => {
  assert.deepEqual(model.after(0, -1), { m: -Infinity, l: 0, alpha: NaN, lse: -Infinity });
  assert.deepEqual(model.after(0, 1), { m: 1.5, l: 1.75, alpha: 0.625, lse: 2 });
  assert.deepEqual(model.after(2, 0), { m: -1, l: 1.5, alpha: 0, lse: -0.5 });
  const phases = [{ ...run.phases[0], reverse: true }],
    back = new Model(toy({ run: { phases }, order: [1, 0] })); // before the first is past the last
  assert.deepEqual([back.after(0, 2).l, back.after(0, 1).m, back.after(0, 0).m], [0, 1.5, 1]);
  const value = (...values) => ["float32", values],
    whole = { m: value(3, 4, 5), l: value(1, 1, 2), alpha: value(NaN, NaN, NaN), lse: value(3, 4, 6) },
    unfused = new Model(toy({ arrays: whole }));
  assert.deepEqual([unfused.after(1, 0).m, unfused.after(1, 1).m, unfused.after(2, 1).lse], [4, 4, 6]);
});

test("who cannot run does not race", () => {
  const misfits = { toy: ["Does not fit", "needs 2 KiB", "has 1 KiB"] },
    alone = new Model(toy({ header: { misfits } }));
  assert.deepEqual([model.finishing, alone.finishing], [["toy"], []]);
  near(model.longest, 48e-6);
  near(alone.longest, 48e-6);
});

test("tiles on their way are those that the steps have just moved, the same from picture to picture", () => {
  const still = (at) => `${flightsOf(run, at, 0).map(({ step }) => step)}`;
  each([0, 1, 2, 3, 4, 14, 15, 31], still, ["", "0", "1", "2", "", "13", "14", ""]);
  assert.deepEqual(flightsOf(run, 1, 3), [{ step: 0, part: 0 }]);
  const flying = flightsOf(run, 3.5, 3);
  each(flying, ({ step }) => step, [0, 1, 2]);
  assert.ok(flying[0].part > flying[1].part && flying[1].part > flying[2].part);
  each(flightsOf(run, 5, 3), ({ step }) => step, [1, 2]);
  each(flightsOf(run, 5, 3), ({ part }) => part, [1, (2 / 3) ** 2 * (3 - 4 / 3)]);
  const many = (at) => flightsOf(run, at, 100).map(({ step }) => step),
    before = new Set(many(25));
  assert.ok(many(31).length <= 9);
  assert.ok(many(26).every((step) => before.has(step) || step >= 24));
});
