// What pictures with a playhead over a run of their own share: room, theme, data, and moving in time.

import { Clock } from "./clock.js";
import { clamp } from "./format.js";
import { readTheme, wear } from "./look.js";
import { Stage } from "./stage.js";
import { Tip } from "./tip.js";
import { equalBytes } from "./unpack.js";

/**
 * A picture has `load(bytes)`, which sets `model` with its `longest` and `palettes`; `layout()`, its panels in
 * their boxes; `eventBeside(by)`, the moment of the next or the last event; `passing(seconds)`, how much of the
 * run passes in so many seconds of the clock; and `draw()`.
 */
export class TimedPlayer {
  /** `pause` is that of a calm clock, `state` what the picture remembers beside the time. */
  constructor(parent, Controls, pause, state) {
    this.root = parent.querySelector(".player");
    this.stage = new Stage(this.root);
    Object.assign(this, { time: 0, ...state });
    this.clock = new Clock(this.root, (seconds) => this.advance(seconds), pause);
    this.tip = new Tip(this.root);
    this.controls = new Controls(this.root, this);
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

  /** New data or a new theme: the picture changes within this task, the share of the run stays. */
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

  seek(time) {
    this.time = clamp(time, 0, this.model.longest);
    this.draw();
  }

  step(by, far = false) {
    this.clock.stop();
    this.seek(far ? this.time + (by * this.model.longest) / 20 : this.eventBeside(by));
  }

  toggle() {
    if (this.clock.playing) this.clock.stop();
    else {
      if (this.time >= this.model.longest) this.time = 0;
      this.clock.start();
    }
    this.draw();
  }

  leave() {
    this.tip.hide();
  }

  /** Lays out and draws everything anew where the room has changed, or anyway. */
  fit(anyway = false) {
    if (!this.model || !(this.stage.measure() || (anyway && this.stage.u))) return;
    this.stage.place(this.layout(), this.model, this.theme);
    this.leave();
    this.draw();
  }

  advance(seconds) {
    this.time += this.passing(seconds);
    if (this.time >= this.model.longest) {
      this.time = this.model.longest;
      this.clock.stop();
    }
    this.draw();
  }
}
