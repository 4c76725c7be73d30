// One canvas, one clock: a GPU's execution in slow motion.

import { clamp, countUpTo, duration, grouped, plural } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { ChartPanel, microseconds, unitOf } from "./chart.js";
import { GpuControls, PACES } from "./controls.js";
import { HeadsPanel } from "./heads_and_tiles.js";
import { gpuLayout } from "./layout.js";
import { COLOURINGS, NOWHERE, Recorded } from "./placement.js";
import { blockWords, sentence } from "./story.js";

const CALM_PAUSE = 200; // ms between the pictures of a calm replay
const WHOLE_RUN = 20; // seconds that the first pace takes for the run, about

class GpuPlayer extends TimedPlayer {
  constructor(parent) {
    super(parent, GpuControls, CALM_PAUSE, { head: 0, colouring: "query", speed: 10, window: [0, 1] });
  }

  load(bytes) {
    const part = this.model ? this.fraction : 0.45;
    this.bytes = bytes.slice();
    this.model = new Recorded(this.bytes);
    this.fraction = part;
    this.head = Math.min(this.head, this.model.heads - 1);
    this.window = [0, this.model.longest];
    const far = (pace) => Math.abs(Math.log((pace * WHOLE_RUN) / this.model.longest));
    this.speed = PACES.reduce((best, pace) => (far(pace) < far(best) ? pace : best));
  }

  // moving in time

  eventBeside(by) {
    const events = this.model.lanes.map(({ events }) => {
      const at = countUpTo(events, this.at);
      return by > 0
        ? (events[at] ?? Infinity)
        : (events[at - 1 - (events[at - 1] === Math.fround(this.at) ? 1 : 0)] ?? 0);
    });
    return by > 0 ? Math.min(...events) : Math.max(...events);
  }

  // what is shown

  setColouring(colouring) {
    this.colouring = colouring;
    this.draw();
  }

  nextColouring() {
    const names = Object.keys(COLOURINGS);
    this.setColouring(names[(names.indexOf(this.colouring) + 1) % names.length]);
  }

  moveHead(by) {
    this.head = clamp(this.head + by, 0, this.model.heads - 1);
    this.draw();
  }

  get charts() {
    return this.stage.panels.filter((panel) => panel instanceof ChartPanel);
  }

  zoom(event) {
    const chart = this.charts.find(({ plot }) => event.offsetX >= plot.x && event.offsetX < plot.x + plot.w);
    if (!chart || event.deltaY === 0 || !(event.ctrlKey || this.zoomed || event.deltaY < 0)) return;
    event.preventDefault();
    const [from, to] = this.window,
      about = chart.timeAt(event.offsetX, this.window),
      factor = event.deltaY > 0 ? 1.25 : 0.8;
    const span = clamp((to - from) * factor, this.model.longest / 2000, this.model.longest);
    this.show(about - ((about - from) / (to - from)) * span, span);
  }

  get zoomed() {
    return this.window[1] - this.window[0] < this.model.longest;
  }

  /** Show a span of time, kept within the run. */
  show(from, span) {
    const start = clamp(from, 0, this.model.longest - span);
    this.window = [start, start + span];
    this.draw();
  }

  zoomOut() {
    this.show(0, this.model.longest);
  }

  press(event) {
    super.press();
    const heads = this.stage.panels.find((panel) => panel instanceof HeadsPanel),
      head = heads?.headAt(event.offsetX, event.offsetY) ?? NOWHERE;
    if (head !== NOWHERE) {
      this.head = head;
      return this.draw();
    }
    const chart = this.charts.find(
      ({ plot, strip }) =>
        event.offsetX >= plot.x &&
        event.offsetX < plot.x + plot.w &&
        event.offsetY >= plot.y &&
        event.offsetY < strip.y + strip.h,
    );
    if (!chart) return;
    this.held = { chart, x: event.offsetX, window: this.window, moved: false };
    this.stage.canvas.setPointerCapture(event.pointerId);
  }

  point(event) {
    if (!this.held) return super.point(event);
    const {
      chart,
      x,
      window: [from, to],
    } = this.held;
    if (Math.abs(event.offsetX - x) > 3) this.held.moved = true;
    if (this.held.moved && this.zoomed)
      this.show(from - ((event.offsetX - x) / chart.plot.w) * (to - from), to - from);
  }

  /** A press that did not drag goes to that moment. */
  lift(event) {
    const held = this.held;
    this.held = null;
    if (held && !held.moved) this.seek(held.chart.timeAt(event.offsetX, this.window));
  }

  /** What the block under the pointer is; the tip stands beside the block, not at the pointer. */
  hover(x, y) {
    for (const chart of this.charts) {
      const n = chart.blockAt(x, y, this.window);
      if (n === NOWHERE) continue;
      const { lane, plot } = chart,
        [top, thick] = chart.line(n);
      const left = Math.max(plot.x, chart.x(lane.start[n], this.window)),
        right = Math.min(plot.x + plot.w, chart.x(lane.end[n], this.window));
      return this.tip.show(this.stage, [left, top, right - left, thick], blockWords(this.model, lane, n));
    }
    this.leave();
  }

  // drawing

  layout() {
    return gpuLayout(this.model, this.stage);
  }

  draw() {
    if (!this.stage.pen) return;
    const { at: time, head, colouring, model } = this;
    this.stage.paint({ time, head, colouring, window: this.window });
    const [unit, name] = unitOf(model.longest),
      step = unit > 1 ? 0.01 : model.longest < 1000 ? 0.1 : 1;
    const title = `${plural(model.sms, "SM")} over time`;
    this.stage.canvas.dataset.title = title;
    this.tell(title, {
      sentence: sentence(model, time),
      where: `${microseconds(time / unit, step)} ${name}, ${grouped(1e6 / this.speed)}× slower`,
      length: duration(model.longest / 1e6),
      colouring,
    });
  }

  passing(seconds) {
    return seconds * this.speed;
  }
}

/** For tests `window.__gpu` tells and moves the moment. */
const show = showing(GpuPlayer, (player) => {
  window.__gpu = {
    seek: (time) => player.seek(time),
    state: () => ({
      time: player.at,
      head: player.head,
      window: player.window,
      longest: player.model.longest,
      ...player.controls.shown,
    }),
  };
});
export default show;
