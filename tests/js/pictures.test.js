// Bars, squares and pipes as large as their numbers, on a canvas that a test reads.

import assert from "node:assert/strict";
import test from "node:test";
import { Pen } from "../../app/canvas/pen.js";
import { TimedPlayer } from "../../app/canvas/timed_player.js";
import { unpack } from "../../app/canvas/unpack.js";
import { Recorded } from "../../app/gpu/placement.js";
import { Model } from "../../app/player/model.js";
import { RowPanel } from "../../app/player/row_panel.js";
import { amountBar } from "../../app/player/traffic_panel.js";
import { each, pack, RUN, toy } from "./payload.js";

const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9 * Math.max(1, Math.abs(b)), `${a} is not ${b}`);
const TONES = { panel: "#111111", cell: "#222222", ink: "#ffffff", muted: "#888888", ground: "#000000" };
const THEME = { ...TONES, Q: "#0000ff", O: "#ff8800", S: "#aa55aa" };

/** A pen that writes down what it draws: boxes by their colour, and words. */
class Writing extends Pen {
  constructor() {
    const nothing = () => {};
    super(new Proxy({}, { get: () => nothing, set: () => true }), THEME, 1);
    Object.assign(this, { boxes: [], words: [] });
  }

  box(x, _y, w, h, color) {
    this.boxes.push({ x, w, h, color });
  }

  text(said) {
    this.words.push(said);
    return 10;
  }

  hatch() {}
}

const model = new Model(toy()),
  { run } = model;

test("a bar is as long as its bytes of the most there are: read, written, and the whole behind them", () => {
  const pen = new Writing();
  amountBar(pen, { x: 100, y: 0, w: 528 }, { title: "a toy", run, step: 14, level: "requested", most: 1056 });
  const wide = (color) => pen.boxes.find((box) => box.color === color);
  near(wide(THEME.panel).w, 528); // 1,056 bytes
  near(wide(THEME.cell).w, 264); // 528 of all
  near(wide(THEME.Q).w, run.readAt(14) / 2);
  near(wide(THEME.O).w, 20); // O and lse of a query tile: 32 and 8 bytes
  assert.deepEqual(pen.words, [" of 528 B", "264 B", "a toy"]);
});

test("what crosses HBM has bars of its own", () => {
  const pen = new Writing();
  amountBar(pen, { x: 0, y: 0, w: 100 }, { title: "a toy", run, step: 30, level: "crossing", most: 336 });
  near(pen.boxes.find((box) => box.color === THEME.cell).w, 100);
  near(pen.boxes.find((box) => box.color === THEME.Q).w, (100 * 256) / 336);
  assert.deepEqual(pen.words.slice(0, 2), [" of 336 B", "336 B"]);
});

test("lse is said to be of the tile before while m is new and l is not", () => {
  const said = (step) => {
    const pen = new Writing();
    new RowPanel().paint(pen, { x: 0, y: 0, w: 1200, h: 60 }, { model, run, step, row: 0, following: true });
    return [pen.words.find((word) => String(word).startsWith("m + log ℓ")), pen.words.includes("2.00")];
  };
  assert.deepEqual(said(9), ["m + log ℓ", true]); // l is 2: lse 1.75 of m 1
  for (const step of [10, 11]) assert.equal(said(step)[0], "m + log ℓ before this tile"); // m is 1.5
  assert.equal(said(12)[0], "m + log ℓ");
  assert.equal(said(30)[0], "m + log ℓ");
});

test("a run without steps has its total alone", () => {
  const pen = new Writing();
  const of = { title: "b", run: { total: 500, crossing: 40 }, step: 3, level: "crossing", most: 400 };
  amountBar(pen, { x: 0, y: 0, w: 100 }, of);
  near(pen.boxes.find((box) => box.color === THEME.cell).w, 10);
  assert.deepEqual(pen.words, ["40 B", "b"]);
});

test("the fastest run is the first to be done, and the race lasts as long as the slowest", () => {
  const { arrays } = unpack(toy());
  const of = (name) =>
    Object.fromEntries(
      ["kind", "query", "key"].map((part) => [`${name}.${part}`, ["uint8", [...arrays.toy[part]]]]),
    );
  const timed = (factor) => ({ ...RUN, kinds: RUN.kinds.map((kind) => kind.with(5, factor * kind[5])) });
  const runs = { toy: timed(1), slow: timed(3), quick: timed(0.5) };
  const race = new Model(toy({ header: { runs }, arrays: { ...of("slow"), ...of("quick") } }));
  assert.deepEqual(race.finishing, ["quick", "toy", "slow"]);
  near(race.longest, 3 * 48e-6);
});

test("a tile that is stored again stands in memory once", () => {
  const bytes = (...values) => ["uint8", values],
    steps = { "toy.kind": bytes(7, 7, 7), "toy.query": bytes(0, 0, 1), "toy.key": bytes(255, 255, 255) },
    again = new Model(toy({ arrays: steps })).run;
  each([0, 1, 2], (step) => again.storedAt("O", step), [0.5, 0.5, 1]);
  assert.equal(again.writtenAt(2), 96);
});

test("a block runs from its start until just before its end", () => {
  const lane = { name: "a", resident: [1] };
  const float = (values) => ["float32", values],
    whole = (values) => ["int32", values];
  const columns = {
    ...{ "lane0.sm": whole([0, 1, 0]), "lane0.start": float([0, 0, 4]), "lane0.end": float([4, 6, 8]) },
    ...{ "lane0.query": whole([0, 1, 2]), "lane0.kernel": ["uint8", [0, 0, 0]] },
  };
  const recorded = new Recorded(pack({ sms: 2, lanes: [lane] }, columns));
  const [one] = recorded.lanes;
  each([0, 3, 4, 6, 8], (time) => one.at(time).done, [0, 0, 1, 2, 3]);
  for (const name of ["running", "busy"])
    each([0, 3, 4, 6, 8], (time) => one.at(time)[name], [2, 2, 2, 1, 0]);
  each([-1, 0, 5, 6, 9], (time) => one.progress(1, time), [-1, 0, 5 / 6, 1, 1]);
  assert.equal(recorded.longest, 8);
});

test("an arrow goes to the next event, and with Shift a twentieth of the run", () => {
  const own = { model: { longest: 100 }, clock: { stop() {} }, draw() {}, eventBeside: (by) => 50 + by },
    player = Object.assign(Object.create(TimedPlayer.prototype), own);
  const at = (...asked) => {
    player.at = 50;
    player.step(...asked);
    return player.at;
  };
  assert.deepEqual([at(1), at(-1), at(1, true), at(-1, true)], [51, 49, 55, 45]);
  player.seek(1000);
  assert.equal(player.at, 100);
});
