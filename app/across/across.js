// One canvas, one clock: a sequence over several GPUs.

import { duration, plural } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { AcrossControls } from "./controls.js";
import { LanesPanel } from "./lanes.js";
import { acrossLayout } from "./layout.js";
import { Runs } from "./run.js";
import { markWords, sentence } from "./story.js";

const CALM_PAUSE = 400; // ms between the pictures of a calm run
const WALK = 24; // seconds from the start to the end, at the usual speed
const STANDS = 900; // ms that words stand for at least while it plays

class AcrossPlayer extends TimedPlayer {
  constructor(parent) {
    super(parent, AcrossControls, CALM_PAUSE, { speed: 1, shown: 0, spoke: 0 });
  }

  load(bytes) {
    const part = this.model ? this.fraction : null;
    this.bytes = bytes.slice();
    this.model = new Runs(this.bytes);
    if (part === null) this.at = this.model.runs[0].telling();
    else this.fraction = part;
    this.shown = Math.min(this.shown, this.model.runs.length - 1);
    this.controls.offer(this.model.runs);
  }

  // moving in time

  seek(at) {
    this.spoke = 0;
    super.seek(at);
  }

  eventBeside(by) {
    const least = this.model.longest * 1e-6,
      { events } = this.model.runs[this.shown];
    const next =
      by > 0
        ? events.find((time) => time > this.at + least)
        : events.findLast((time) => time < this.at - least);
    return next ?? (by > 0 ? this.model.longest : 0);
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
    super.press();
    const chart = this.lanes.find((panel) => panel.holds(event.offsetX, event.offsetY));
    if (!chart) return;
    this.shown = chart.number;
    this.seek(chart.timeAt(event.offsetX));
  }

  hover(x, y) {
    for (const chart of this.lanes) {
      const n = chart.markAt(x, y);
      if (n >= 0) return this.tip.show(this.stage, chart.place(n), markWords(chart.run, n));
    }
    this.leave();
  }

  // drawing

  layout() {
    return acrossLayout(this.model, this.stage);
  }

  draw() {
    if (!this.stage.pen) return;
    const { at: time, shown, model } = this;
    this.stage.paint({ time, shown });
    this.tell(`${plural(model.gpus, "GPU")} over time`, {
      sentence: this.standing(STANDS, () => sentence(model, model.runs[shown], time)),
      where: `${duration(time / 1e6)} of ${duration(model.longest / 1e6)}`,
      length: model.runs[shown].origin,
      run: shown,
    });
  }

  passing(seconds) {
    return ((seconds * this.speed) / WALK) * this.model.longest;
  }
}

/** For tests `window.__across` tells and moves the moment. */
const show = showing(AcrossPlayer, (player) => {
  window.__across = {
    seek: (time) => player.seek(time),
    state: () => ({ time: player.at, longest: player.model.longest, ...player.controls.shown }),
  };
});
export default show;
