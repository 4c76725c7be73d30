// What pictures with a playhead over a run share: a stage of panels, the bar that they are played with, and one clock for two.

import { Film } from "./film.js";
import { clamp, grouped, microseconds, unitOf } from "./format.js";
import { Stage } from "./stage.js";
import { frameOf, Transport } from "./transport.js";
import { equalBytes } from "./unpack.js";
import { View } from "./view.js";

const CALM_PAUSE = 300; // ms between the pictures of a calm run
const WALK = 24; // seconds from the start to the end, at the usual speed, where the bar says no other
const STANDS = 800; // ms that words stand for at least while it plays
const PAIR = ".st-key-beside"; // of the page, in which pictures have one clock, see app/page/parts/beside.py
const played = new Set(); // all that have a playhead

/**
 * A picture has `static bar`, see frameOf; `static Model`, made of the payload's bytes, with `longest` and `palettes`;
 * `layout()`, its panels and their boxes, see Stage; and `moment()`: what its panels see (`view`), what the canvas
 * shows (`title`, or the bar's label), the `sentence`, and the marks below the scrubber, `where` and `length`.
 * It stands `at` a place from 0 to `last`; `passing(seconds)` is how far it comes in so many seconds of the clock.
 */
export class TimedPlayer extends View {
  static Controls = Transport;

  constructor(parent) {
    const { bar, Controls } = new.target,
      root = parent.querySelector(".player");
    root.setAttribute("aria-label", `${bar.label}. Press ? for its keys.`);
    root.innerHTML = frameOf(bar);
    const stage = new Stage(root);
    super(root, stage.canvas, CALM_PAUSE);
    Object.assign(this, { stage, at: 0 });
    Object.assign(this, structuredClone(bar.state ?? { speed: 1 }));
    this.pair = root.getRootNode().host?.closest(PAIR);
    this.controls = new Controls(root, this, bar);
    root.player = this; // whoever makes files of the page finds it here
    played.add(this);
  }

  release() {
    played.delete(this);
    super.release();
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
  }

  /** Takes a new model, at what part of the run the one before stood; null at first, when it may say where. */
  load(part) {
    if (part === null) this.at = this.model.first ?? 0;
    else this.fraction = part;
  }

  /** Lays out and draws everything anew where the room has changed, or anyway. */
  fit(anyway = false) {
    if (!this.model || !(this.stage.measure() || (anyway && this.stage.u))) return;
    this.stage.place(this.layout(), this.model, this.theme);
    this.draw();
  }

  draw() {
    if (!this.stage.pen) return;
    this.paint();
    this.share();
  }

  paint() {
    const { view, title = this.constructor.bar.label, ...words } = this.moment();
    this.stage.paint(view);
    this.tell(title, words);
  }

  tell(title, words) {
    const { fraction: part, playing, speed } = this,
      { canvas } = this.stage;
    this.controls.show({ part, playing, speed, ...words });
    canvas.dataset.title = title;
    canvas.setAttribute("aria-label", `${title}. ${words.sentence}`);
  }

  /** Words for now, which `words()` makes; while it plays they stand for a while before others replace them. */
  standing(words) {
    const { now } = this;
    if (!this.playing || !this.said || now - this.spoke > STANDS)
      Object.assign(this, { spoke: now, said: words() });
    return this.said;
  }

  // its clock, which is that of both where two are beside each other: of the one that takes longest

  get together() {
    return this.pair ? [...played].filter(({ pair, model }) => pair === this.pair && model) : [this];
  }

  get leader() {
    return this.together.sort((one, other) => other.end - one.end)[0] ?? this;
  }

  get clock() {
    return this.leader.own;
  }

  set clock(clock) {
    this.own = clock;
  }

  get playing() {
    return this.clock.playing;
  }

  get now() {
    return performance.now();
  }

  // where it stands and ends; in its own time, which is what it has in common with another; and as a part of the way

  get last() {
    return this.model.longest;
  }

  get time() {
    return this.at;
  }

  set time(time) {
    this.at = clamp(time, 0, this.last);
  }

  get end() {
    return this.last;
  }

  get fraction() {
    return this.at / this.last;
  }

  set fraction(part) {
    this.at = part >= 1 ? this.last : part * this.last;
  }

  seek(at) {
    this.at = clamp(at, 0, this.last);
    this.spoke = 0;
    this.draw();
  }

  toggle() {
    if (this.leader !== this) return this.leader.toggle();
    if (!this.playing && this.at >= this.last) this.at = 0;
    this.clock[this.playing ? "stop" : "start"]();
    this.draw();
  }

  /** Where the next event is, or the last was. */
  eventBeside(by) {
    return (this.model.spans ?? this.model).eventBeside(this.at, by);
  }

  step(by, far = false) {
    this.clock.stop();
    this.seek(far ? this.at + (by * this.last) / 20 : this.eventBeside(by));
  }

  /** How much of the run passes in so many seconds of the clock. */
  passing(seconds) {
    const { walk = () => WALK } = this.constructor.bar;
    return ((seconds * this.speed) / walk(this.model)) * this.last;
  }

  /** Where a run of microseconds stands, and how many times slower than it was it passes, about. */
  get microsecondsWords() {
    const { longest } = this.model,
      [unit, name] = unitOf(longest),
      step = unit > 1 ? 0.01 : longest < 1000 ? 0.1 : 1,
      slower = Number((1e6 / this.passing(1)).toPrecision(2));
    return `${microseconds(this.at / unit, step)} ${name}, ${grouped(slower)}× slower`;
  }

  advance(seconds) {
    this.at += this.passing(seconds);
    if (this.at >= this.last) {
      this.at = this.last;
      this.clock.stop();
    }
    this.draw();
  }

  /** Another value of what the reader chooses, such as the speed. */
  choose(name, value) {
    this[name] = value;
    this.spoke = 0;
    this.draw();
  }

  faster(by) {
    const speeds = this.controls.choices.speed;
    this.choose("speed", speeds[clamp(speeds.indexOf(this.speed) + by, 0, speeds.length - 1)]);
  }

  press() {
    this.root.focus({ preventScroll: true });
  }

  /** What another window needs to show the same moment of the same picture: its place, and what its bar chooses. */
  get shared() {
    const { label, state = { speed: 1 } } = this.constructor.bar,
      own = Object.fromEntries(Object.keys(state).map((name) => [name, this[name]]));
    return { what: label, part: this.fraction, playing: this.playing, state: own };
  }

  /** Tells the window of who leads a room, if it is one, what the room's phones are to show. */
  share() {
    globalThis.attentionRoom?.(this.shared);
    const framed = !this.setStateValue && globalThis.parent !== globalThis; // a file, maybe beside another
    if (!this.pair && !framed) return;
    const { shared, time, met } = this;
    this.met = JSON.stringify([shared.state, time]);
    if (this.meeting || met === this.met) return; // drawn anew at the same moment
    for (const other of this.together) if (other !== this) other.meet(this);
    if (framed) parent.postMessage({ beside: { shared, time } }, "*");
  }

  /** Shows the moment of a picture beside it. */
  meet({ shared: { what, state }, time }) {
    if (!this.model) return;
    const { what: own, state: before } = this.shared;
    if (what !== own) return;
    this.meeting = true;
    this.adopt(state);
    this.time = time;
    if (JSON.stringify(state) === JSON.stringify(before)) this.draw();
    else this.fit(true);
    this.meeting = false;
  }

  /** Shows a moment that another window shares. */
  follow({ what, part, playing, state }) {
    if (what !== this.shared.what) return;
    this.adopt(state);
    this.fraction = part;
    if (playing !== this.playing) this.clock[playing ? "start" : "stop"]();
    this.fit(true);
  }

  adopt(state) {
    Object.assign(this, state);
  }
}
