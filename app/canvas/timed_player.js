// What pictures with a playhead over a run of their own share: a stage of panels, and the bar that they are played with.

import { Film } from "./film.js";
import { capital, clamp } from "./format.js";
import { frameOf, helpPage } from "./frame.js";
import { Stage } from "./stage.js";
import { Tip } from "./tip.js";
import { Transport } from "./transport.js";
import { equalBytes } from "./unpack.js";
import { PlayedView } from "./view.js";

const MOST_FRAMES = 600; // whose times are kept
const CALM_PAUSE = 400; // ms between the pictures of a calm run
const WALK = 24; // seconds from the start to the end, at the usual speed

/** The bar below, with the options of one picture. */
export class TimedControls extends Transport {
  constructor(root, player, bar) {
    super(root, player);
    Object.assign(this, { bar, selects: {}, choices: {} });
    for (const option of bar.options ?? []) {
      if (!option.choices) this.actions[option.name] = () => option.act(player, this);
      else this.offer(option.name, option.choices, option.named);
    }
    this.offer("speed", bar.speeds, bar.named ?? ((speed) => `${speed} ×`));
    this.slider.addEventListener("input", () =>
      player.seek((Number(this.slider.value) / Number(this.slider.max)) * player.last),
    );
    const heard = { pointerdown: "press", pointermove: "point", pointerup: "lift", pointerleave: "leave" };
    for (const [name, call] of Object.entries({ ...heard, wheel: "zoom", dblclick: "zoomOut" }))
      if (player[call])
        this.canvas.addEventListener(name, (event) => player[call](event), { passive: false });
  }

  optionOf(name) {
    return this.root.querySelector(`.options :is([data-do="${name}"], [data-is="${name}"])`);
  }

  /** What there is to choose from under a name, and what each is called. */
  offer(name, choices, named = (_, n) => n) {
    this.choices[name] = choices;
    const select = this.optionOf(name);
    select.replaceChildren(...choices.map((choice, n) => new Option(named(choice, n), choice)));
    select.onchange = () => this.player.choose(name, choices[select.selectedIndex]);
    this.selects[name] = select;
    this.shown = {};
  }

  /** What the buttons do, and the help: keys of what is there, and how the picture of a model is read. */
  explain(model) {
    const { arrows, far = "a twentieth of the run", keys = [], options = [], guide } = this.bar;
    const of = (told) => (typeof told === "function" ? told(model) : told);
    for (const { name, key, told } of options)
      this.optionOf(name).title = capital(of(told)) + (key ? ` (${key})` : "");
    const there = ({ name, key }) => key && !this.optionOf(name).hidden;
    const all = {
      Space: "play or pause (Enter too)",
      "← →": arrows,
      "Shift ← →": far,
      "Home End": "to the start, to the end",
      ...Object.fromEntries(keys.map(({ name, told }) => [name, told])),
      ...Object.fromEntries(options.filter(there).map(({ key, told }) => [key, of(told)])),
      "+ −": "faster, slower",
      f: "full screen",
      "?": "this help",
    };
    this.help.innerHTML = helpPage(all, of(guide));
  }

  keyActions(far) {
    const { player, bar, choices } = this,
      own = (bar.keys ?? []).map(({ act }) => act(player, far)),
      next = (name) => {
        const all = choices[name];
        player.choose(name, all[(all.indexOf(player[name]) + 1) % all.length]);
      };
    for (const { name, key } of bar.options ?? [])
      own.push({ [key]: choices[name] ? () => next(name) : this.actions[name] });
    return Object.assign(super.keyActions(far), { Escape: () => this.showHelp(false) }, ...own);
  }

  /** All for a moment; only what differs is touched. */
  show(next) {
    const { shown, slider } = this;
    if (shown.part !== next.part) this.scrub(Math.round(next.part * slider.max), slider.max);
    for (const [name, select] of Object.entries(this.selects))
      if (shown[name] !== next[name]) select.selectedIndex = this.choices[name].indexOf(next[name]);
    for (const { name, pressed } of this.bar.options ?? [])
      if (pressed && shown[name] !== next[name]) this.press(name, next[name]);
    super.show(next);
  }
}

/**
 * A picture has `static bar`, see frameOf; `static Model`, made of the payload's bytes, with `longest` and `palettes`;
 * `layout()`, its panels and their boxes, see Stage; and `moment()`: what its panels see (`view`), what the canvas
 * shows (`title`), the `sentence`, and the marks below the scrubber, `where` and `length`.
 */
export class TimedPlayer extends PlayedView {
  static Controls = TimedControls;

  constructor(parent) {
    const { bar, Controls } = new.target,
      root = parent.querySelector(".player");
    root.setAttribute("aria-label", `${bar.label}. Press ? for its keys.`);
    root.innerHTML = frameOf(bar);
    const stage = new Stage(root);
    super(root, stage.canvas, bar.pause ?? CALM_PAUSE);
    Object.assign(this, {
      stage,
      tip: new Tip(root),
      frames: [],
      ...structuredClone(bar.state ?? { speed: 1 }),
    });
    this.controls = new Controls(root, this, bar);
    root.player = this; // whoever makes files of the page finds it here
  }

  /** How many times as large as on a page type is in a film for a hall. */
  get hallType() {
    return 1.4;
  }

  /** What it gives to take home: its title, a film, and files of its own by kind. */
  get takeHome() {
    return { title: this.stage.canvas.dataset.title, film: (options) => new Film(this, options), files: {} };
  }

  /** New data or a new theme: the picture changes within this task, and its place in the run stays. */
  update(bytes) {
    const renewed = !this.bytes || !equalBytes(bytes, this.bytes);
    if (renewed) {
      const part = this.model ? this.fraction : null;
      this.bytes = bytes.slice();
      this.model = new this.constructor.Model(this.bytes);
      this.load(part);
      this.controls.explain(this.model);
    }
    if (this.dress(this.model.palettes) || renewed) this.fit(true);
    if (renewed) this.redrawn = performance.now();
  }

  /** Takes a new model, at what part of the run the one before stood; null at first. */
  load(part) {
    this.fraction = part ?? 0;
  }

  /** Lays out and draws everything anew where the room has changed, or anyway. */
  fit(anyway = false) {
    if (!this.model || !(this.stage.measure() || (anyway && this.stage.u))) return;
    this.stage.place(this.layout(), this.model, this.theme);
    this.leave();
    this.draw();
  }

  draw() {
    if (!this.stage.pen) return;
    this.paint();
    this.share();
  }

  paint() {
    const { view, title, ...words } = this.moment();
    this.stage.paint(view);
    this.tell(title, words);
  }

  /** Where the next event is, or the last was. */
  eventBeside(by) {
    return this.model.eventBeside(this.at, by);
  }

  /** How much of the run passes in so many seconds of the clock. */
  passing(seconds) {
    return ((seconds * this.speed) / WALK) * this.model.longest;
  }

  /** Where the run ends. */
  get last() {
    return this.model.longest;
  }

  step(by, far = false) {
    this.clock.stop();
    this.seek(far ? this.at + (by * this.last) / 20 : this.eventBeside(by));
  }

  advance(seconds, now) {
    super.advance(seconds);
    this.frames.push([now, performance.now() - now]);
    if (this.frames.length > MOST_FRAMES) this.frames.shift();
  }

  /** Another value of what the reader chooses, such as the speed. */
  choose(name, value) {
    this[name] = value;
    this.spoke = 0;
    this.draw();
  }

  faster(by) {
    const { speeds } = this.controls.bar;
    this.choose("speed", speeds[clamp(speeds.indexOf(this.speed) + by, 0, speeds.length - 1)]);
  }

  press() {
    this.root.focus({ preventScroll: true });
  }

  /** Says what the pointer is on: the first panel that knows a box with words there. */
  point({ offsetX: x, offsetY: y }) {
    for (const panel of this.stage.panels) {
      const found = panel.pointed?.(x, y, this);
      if (found) return this.tip.show(this.stage, ...found);
    }
    this.leave();
  }

  leave() {
    this.tip.hide();
  }

  tell(title, words) {
    const { fraction: part, playing, speed } = this,
      { canvas } = this.stage;
    this.controls.show({ part, playing, speed, ...words });
    canvas.dataset.title = title;
    canvas.setAttribute("aria-label", `${title}. ${words.sentence}`);
  }

  /** What tests and benchmarks ask: frames are [time, milliseconds of work], seek returns the milliseconds that it took. */
  get asked() {
    const { frames, controls } = this;
    return {
      frames,
      seek: (at) => {
        const start = performance.now();
        this.seek(at);
        return performance.now() - start;
      },
      state: () => ({ time: this.at, longest: this.model.longest, redrawn: this.redrawn, ...controls.shown }),
    };
  }
}
