// While keys move a slider quickly, its first value and its last are sent, and whatever else is asked for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { awaitLast } from "../../app/frame/last_value.js";

const RERUN = 0x5a,
  HEARTBEAT = 0x3a;

/** A socket that notes what leaves it, on a clock of its own. */
function room(t) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const sent = [],
    target = new EventTarget(),
    prototype = { send: (data) => sent.push(data[1]) };
  awaitLast(prototype, target, () => Date.now());
  const socket = Object.create(prototype);
  const hear = (name, on, key) => {
    const event = new Event(name);
    Object.defineProperty(event, "target", { value: on });
    target.dispatchEvent(Object.assign(event, { key }));
  };
  return {
    sent,
    wait: (ms) => t.mock.timers.tick(ms),
    send: (value, first = RERUN) => socket.send(new Uint8Array([first, value])),
    press: (key = "ArrowRight", type = "range") => hear("keydown", { type }, key),
    point: () => hear("pointerdown", {}, undefined),
  };
}

function drag({ press, send, wait }, values, apart = 40) {
  for (const value of values) {
    press();
    send(value);
    wait(apart);
  }
}

test("of a held key the first and the last value are sent, the last once no other comes", (t) => {
  const all = room(t);
  drag(all, [1, 2, 3, 4, 5]);
  assert.deepEqual(all.sent, [1]);
  all.wait(19);
  assert.deepEqual(all.sent, [1]);
  all.wait(1);
  assert.deepEqual(all.sent, [1, 5]);
});

test("the last value waits as the keys are apart, and neither for an instant nor for long", (t) => {
  for (const [apart, waited] of [
    [2, 50],
    [200, 80],
  ]) {
    const all = room(t);
    drag(all, [1, 2], apart);
    all.press();
    all.send(3);
    const before = all.sent.length;
    all.wait(waited - 1);
    assert.equal(all.sent.length, before, `${apart} ms apart`);
    all.wait(1);
    assert.equal(all.sent.at(-1), 3, `${apart} ms apart`);
    t.mock.timers.reset();
  }
});

test("keys far apart wait for nobody", (t) => {
  const all = room(t);
  drag(all, [1, 2, 3], 600);
  assert.deepEqual(all.sent, [1, 2, 3]);
});

test("a value that leaves late, after the browser has drawn, goes at once and in the place of what waits", (t) => {
  const all = room(t);
  drag(all, [1, 2]);
  all.wait(60);
  all.send(3);
  assert.deepEqual(all.sent, [1, 2, 3]);
  all.wait(500);
  assert.deepEqual(all.sent, [1, 2, 3]);
});

test("a key or a pointer elsewhere sends what waits, and its own message is not held", (t) => {
  for (const elsewhere of [(all) => all.point(), (all) => all.press("Enter", "submit")]) {
    const all = room(t);
    drag(all, [1, 2, 3]);
    elsewhere(all);
    all.send(9);
    assert.deepEqual(all.sent, [1, 3, 9]);
    t.mock.timers.reset();
  }
});

test("what asks for no run is never held and never lost", (t) => {
  const all = room(t);
  drag(all, [1, 2]);
  all.send(7, HEARTBEAT);
  assert.deepEqual(all.sent, [1, 2, 7]);
});
