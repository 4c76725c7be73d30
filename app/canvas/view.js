// What all pictures in the browser share: made once for a place on the page, drawn anew as room, theme and data change.

import { Clock } from "./clock.js";
import { clamp } from "./format.js";
import { Stage } from "./stage.js";
import { readTheme, wear } from "./theme.js";

/** A picture has `update(data)`; `fit()`, which draws it in the room that there is; and `advance(seconds, now)`. */
export class View {
  /** `canvas` is what it is drawn in, `pause` that of a calm clock. */
  constructor(root, canvas, pause) {
    this.root = root;
    this.clock = new Clock(root, (seconds, now) => this.advance(seconds, now), pause);
    this.onResize = () => this.fit();
    this.observer = new ResizeObserver(this.onResize);
    this.observer.observe(canvas);
    window.addEventListener("resize", this.onResize);
    document.addEventListener("fullscreenchange", this.onResize);
  }

  release() {
    this.clock.stop();
    this.controls?.release();
    this.observer.disconnect();
    window.removeEventListener("resize", this.onResize);
    document.removeEventListener("fullscreenchange", this.onResize);
  }

  /** Wears the theme that the page has; whether it is another than before. */
  dress(palettes) {
    const theme = readTheme(this.root, palettes),
      other = JSON.stringify(theme) !== JSON.stringify(this.theme);
    if (other) wear(this.root, theme);
    this.theme = theme;
    return other;
  }
}

/**
 * A picture that fills a canvas of its own: `unit(width, height)` is what its type is drawn in, and
 * `paint(pen, width, height)` draws its data at `moment`, seconds of the clock.
 */
export class CanvasView extends View {
  constructor(root, pause, moment = 0) {
    const stage = new Stage(root, root.querySelector("canvas"));
    super(root, stage.canvas, pause);
    Object.assign(this, { stage, moment });
  }

  update(data) {
    this.data = data;
    this.dress(data.palettes);
    this.fit();
  }

  advance(seconds) {
    this.moment += seconds;
    this.fit();
  }

  /** Draws this moment in the room that there is. */
  fit() {
    const { width, height } = this.stage.canvas.getBoundingClientRect();
    if (width && height && this.data)
      this.paint(this.stage.clear(width, height, this.unit(width, height), this.theme), width, height);
  }
}

const PAIR = ".st-key-beside"; // of the page, in which pictures have one clock, see app/page/parts/beside.py
const played = new Set(); // all that have a playhead

/**
 * A picture with a playhead: `at` is where it stands, from 0 to `last`; `passing(seconds)` is how far it comes in so
 * many seconds of the clock, and `draw()` draws it there.
 */
export class PlayedView extends View {
  constructor(root, canvas, pause) {
    super(root, canvas, pause);
    Object.assign(this, { at: 0, loop: false, pair: root.getRootNode().host?.closest(PAIR) });
    played.add(this);
  }

  release() {
    played.delete(this);
    super.release();
  }

  /** Those that are played by one clock: this alone, or two beside each other. */
  get together() {
    return this.pair ? [...played].filter(({ pair, model }) => pair === this.pair && model) : [this];
  }

  /** The one of them that takes longest, whose clock it is. */
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

  /** Where it stands and where it ends, in what it has in common with another: its own time. */
  get time() {
    return this.at;
  }

  set time(time) {
    this.at = clamp(time, 0, this.last);
  }

  get end() {
    return this.last;
  }

  get now() {
    return performance.now();
  }

  get fraction() {
    return this.at / this.last;
  }

  set fraction(part) {
    this.at = part >= 1 ? this.last : part * this.last;
  }

  /** What another window needs to show the same moment of the same picture: its place, and what its bar chooses. */
  get shared() {
    const { label = "", state = { speed: 1 } } = this.constructor.bar ?? {},
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

  seek(at) {
    this.at = clamp(at, 0, this.last);
    this.spoke = 0;
    this.draw();
  }

  toggle() {
    if (this.leader !== this) return this.leader.toggle();
    if (!this.playing && this.at >= this.last) this.at = 0;
    if (this.playing) this.clock.stop();
    else this.clock.start();
    this.draw();
  }

  advance(seconds) {
    this.at += this.passing(seconds);
    if (this.at >= this.last && !this.loop) this.clock.stop();
    if (this.at >= this.last) this.at = this.loop ? 0 : this.last;
    this.draw();
  }

  /** Words for now, which `words()` makes; while it plays they stand for so many ms at least before others replace them. */
  standing(least, words) {
    const { now } = this;
    if (!this.playing || !this.said || now - this.spoke > least)
      Object.assign(this, { spoke: now, said: words() });
    return this.said;
  }
}
