// Keys, buttons and the scrubber, on an element that a test presses.

import assert from "node:assert/strict";
import test from "node:test";
import { Transport } from "../../app/canvas/transport.js";
import { BAR, Controls } from "../../app/player/controls.js";

/** An element as far as controls know one: what was set on it can be read, and what listens to it called. */
function element() {
  const heard = {},
    kept = new Map(),
    styles = {};
  return Object.assign(
    {
      heard,
      styles,
      attributes: {},
      hidden: true,
      classList: { toggle() {}, contains: () => true },
      style: { setProperty: (name, value) => Object.assign(styles, { [name]: value }) },
      isConnected: true,
    },
    {
      addEventListener: (name, call) => Object.assign(heard, { [name]: call }),
      setAttribute(name, value) {
        this.attributes[name] = value;
      },
      append() {},
      before() {},
      replaceChildren() {},
      matches: () => false,
      querySelector: (selector) => kept.get(selector) ?? kept.set(selector, element()).get(selector),
    },
  );
}

globalThis.window = element();
globalThis.document = { fullscreenElement: null, body: {}, documentElement: {}, querySelectorAll: () => [] };
document.createElement = element;
globalThis.Option = class {};

/** A key pressed on the root, and whether the browser was kept from its own answer. */
function pressed(root, key, held = {}) {
  const event = { key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...held };
  Object.assign(event, { composedPath: () => [root], prevented: false, stopImmediatePropagation() {} });
  event.preventDefault = () => Object.assign(event, { prevented: true });
  root.heard.keydown(event);
  return event.prevented;
}

/** A player that writes down what it was told. */
function told() {
  const player = { calls: [] };
  player.root = element();
  for (const name of ["seek", "step", "toggle", "faster", "moveRow", "choose", "setRace"])
    player[name] = (...values) => player.calls.push([name, ...values].join(" "));
  return player;
}

test("arrows step, and with Shift go further, either way", () => {
  const root = element(),
    player = told();
  new Transport(root, player);
  for (const key of ["ArrowLeft", "ArrowRight"])
    for (const shiftKey of [false, true]) assert.equal(pressed(root, key, { shiftKey }), true);
  assert.deepEqual(player.calls, ["step -1 false", "step -1 true", "step 1 false", "step 1 true"]);
});

test("Home and End lead to both ends, plus and minus change the speed", () => {
  const root = element(),
    player = told();
  new Transport(root, player);
  for (const key of ["Home", "End", "+", "=", "-", " ", "Enter"]) pressed(root, key);
  const expected = "seek 0, seek Infinity, faster 1, faster 1, faster -1, toggle, toggle";
  assert.equal(player.calls.join(", "), expected);
});

test("what the browser does with Control, Command or Alt stays its own", () => {
  const root = element();
  let calls = 0;
  const bar = new Transport(root, told(), false);
  bar.keyActions = () => ({ r: () => calls++, ArrowLeft: () => calls++ });
  for (const held of ["ctrlKey", "metaKey", "altKey"])
    for (const key of ["r", "R", "ArrowLeft"]) assert.equal(pressed(root, key, { [held]: true }), false);
  assert.equal(calls, 0);
  assert.equal(pressed(root, "R"), true);
  assert.equal(pressed(root, "x"), false);
  assert.equal(calls, 1);
});

test("up and down choose a row, letters do what their buttons do", () => {
  const root = element(),
    player = Object.assign(told(), { race: false, loop: true });
  new Controls(root, player, BAR);
  for (const key of ["ArrowUp", "ArrowDown", "r", "l"]) pressed(root, key);
  pressed(root, "ArrowUp", { shiftKey: true });
  const expected = "moveRow -1 false, moveRow 1 false, setRace true, choose loop false, moveRow -1 true";
  assert.equal(player.calls.join(", "), expected);
});

test("the scrubber stands where the player does, and leads it where it is put", () => {
  const root = element(),
    player = Object.assign(told(), { last: 12 }),
    controls = new Controls(root, player, BAR),
    slider = root.querySelector("input[type=range]");
  const stands = { last: 12, race: false, loop: false, speed: 1, playing: false },
    moment = { ...stands, part: 3 / 12, where: "3 of 12" };
  controls.show(moment);
  assert.deepEqual([slider.max, slider.value, slider.styles["--part"]], [12, 3, "25%"]);
  controls.show({ ...moment, part: 6 / 12, where: "6 of 12" });
  assert.deepEqual([slider.max, slider.value, slider.styles["--part"]], [12, 6, "50%"]);
  assert.equal(slider.attributes["aria-valuetext"], "6 of 12");
  slider.value = "9";
  slider.heard.input();
  const speed = controls.optionOf("speed");
  assert.equal(speed.selectedIndex, BAR.speeds.indexOf(1));
  speed.selectedIndex = 1;
  speed.onchange();
  assert.deepEqual(player.calls, ["seek 9", "choose speed 0.25"]);
});
