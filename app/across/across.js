// One canvas, one clock: a sequence over several GPUs.

import { Clock } from "../canvas/clock.js";
import { clamp, duration, plural } from "../canvas/format.js";
import { readTheme, wear } from "../canvas/look.js";
import { Stage } from "../canvas/stage.js";
import { Tip } from "../canvas/tip.js";
import { equalBytes } from "../canvas/unpack.js";
import { AcrossControls, SPEEDS } from "./controls.js";
import { LanesPanel } from "./lanes.js";
import { acrossLayout } from "./layout.js";
import { Runs } from "./run.js";
import { markWords, sentence } from "./story.js";

const CALM_PAUSE = 400; // ms between the pictures of a calm run
const WALK = 24; // seconds from the start to the end, at the usual speed
const STANDS = 900; // ms that words stand for at least while it plays
const players = new WeakMap(); // shadow root to player: the component's function runs again whenever its data change

class AcrossPlayer {
  constructor(parent) {
    this.root = parent.querySelector(".player");
    this.stage = new Stage(this.root);
    Object.assign(this, { time: 0, speed: 1, shown: 0, spoke: 0 });
    this.clock = new Clock(this.root, (seconds) => this.advance(seconds), CALM_PAUSE);
    this.tip = new Tip(this.root);
    this.controls = new AcrossControls(this.root, this);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.stage.canvas);
    this.onResize = () => this.fit();
    window.addEventListener("resize", this.onResize);
  }

  release() {
    this.clock.stop();
    this.controls.release();
    this.observer.disconnect();
    window.removeEventListener("resize", this.onResize);
  }

  /** New data or a new theme: the picture changes within this task, the share of the way stays. */
  update(bytes) {
    const renewed = !this.bytes || !equalBytes(bytes, this.bytes);
    if (renewed) this.load(bytes);
    const theme = readTheme(this.root, this.model.palettes),
      recolored = JSON.stringify(theme) !== JSON.stringify(this.theme);
    if (!recolored && !renewed) return;
    this.theme = theme;
    if (recolored) wear(this.root, theme);
    this.fit(true);
  }

  load(bytes) {
    const part = this.model ? this.time / this.model.longest : null;
    this.bytes = bytes.slice();
    this.model = new Runs(this.bytes);
    this.time = part === null ? this.model.runs[0].telling() : part * this.model.longest;
    this.shown = Math.min(this.shown, this.model.runs.length - 1);
    this.controls.offer(this.model.runs);
    this.controls.shown = {};
  }

  // moving in time

  seek(time) {
    this.time = clamp(time, 0, this.model.longest);
    this.spoke = 0;
    this.draw();
  }

  step(by, far = false) {
    this.clock.stop();
    if (far) return this.seek(this.time + (by * this.model.longest) / 20);
    const least = this.model.longest * 1e-6,
      { events } = this.model.runs[this.shown];
    const next =
      by > 0
        ? events.find((time) => time > this.time + least)
        : events.findLast((time) => time < this.time - least);
    this.seek(next ?? (by > 0 ? this.model.longest : 0));
  }

  toggle() {
    if (this.clock.playing) this.clock.stop();
    else {
      if (this.time >= this.model.longest) this.time = 0;
      this.clock.start();
    }
    this.draw();
  }

  setSpeed(speed) {
    this.speed = speed;
    this.draw();
  }

  faster(by) {
    this.setSpeed(SPEEDS[clamp(SPEEDS.indexOf(this.speed) + by, 0, SPEEDS.length - 1)]);
  }

  // what is shown

  showRun(number) {
    this.shown = number;
    this.spoke = 0;
    this.draw();
  }

  nextRun() {
    this.showRun((this.shown + 1) % this.model.runs.length);
  }

  get lanes() {
    return this.stage.panels.filter((panel) => panel instanceof LanesPanel);
  }

  /** A press on a run's lanes goes to that moment, and shows the run. */
  press(event) {
    this.root.focus({ preventScroll: true });
    const chart = this.lanes.find((panel) => panel.holds(event.offsetX, event.offsetY));
    if (!chart) return;
    this.shown = chart.number;
    this.seek(chart.timeAt(event.offsetX));
  }

  leave() {
    this.tip.hide();
  }

  hover(x, y) {
    for (const chart of this.lanes) {
      const n = chart.markAt(x, y);
      if (n >= 0) return this.tip.show(this.stage, chart.place(n), markWords(chart.run, n));
    }
    this.leave();
  }

  // drawing

  /** Lays out and draws everything anew where the room has changed, or anyway. */
  fit(anyway = false) {
    if (!this.model || !(this.stage.measure() || (anyway && this.stage.u))) return;
    this.stage.place(acrossLayout(this.model, this.stage), this.model, this.theme);
    this.leave();
    this.draw();
  }

  draw() {
    if (!this.stage.pen) return;
    const { time, shown, model, speed } = this,
      { playing } = this.clock;
    this.stage.paint({ time, shown });
    this.controls.show({
      sentence: this.words(playing),
      where: `${duration(time / 1e6)} of ${duration(model.longest / 1e6)}`,
      length: "modelled",
      part: time / model.longest,
      playing,
      speed,
      run: shown,
    });
    this.stage.canvas.setAttribute(
      "aria-label",
      `${plural(model.gpus, "GPU")} over time. ${this.controls.shown.sentence}`,
    );
  }

  /** While it plays, words stand for a while before others replace them. */
  words(playing) {
    const now = performance.now();
    if (!playing || !this.said || now - this.spoke > STANDS)
      Object.assign(this, { spoke: now, said: sentence(this.model, this.model.runs[this.shown], this.time) });
    return this.said;
  }

  /** Moves on by so many seconds of the clock. */
  advance(seconds) {
    this.time += ((seconds * this.speed) / WALK) * this.model.longest;
    if (this.time >= this.model.longest) {
      this.time = this.model.longest;
      this.clock.stop();
    }
    this.draw();
  }
}

/** Streamlit calls this whenever the data or the theme change; for tests `window.__across` tells and moves the moment. */
export default function show({ data, parentElement }) {
  if (!data) return undefined;
  const player = players.get(parentElement) ?? new AcrossPlayer(parentElement);
  players.set(parentElement, player);
  player.update(data);
  window.__across = {
    seek: (time) => player.seek(time),
    state: () => ({ time: player.time, longest: player.model.longest, ...player.controls.shown }),
  };
  return () => player.release();
}
