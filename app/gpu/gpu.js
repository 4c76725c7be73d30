// One canvas, one clock: a GPU's execution in slow motion.

import { clamp, duration, grouped, microseconds, plural, unitOf } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { ChartPanel } from "./chart.js";
import { HeadsPanel } from "./heads_and_tiles.js";
import { gpuLayout } from "./layout.js";
import { COLOURINGS, NOWHERE, Recorded } from "./placement.js";
import { sentence } from "./story.js";

const WHOLE_RUN = 20; // seconds that the first pace takes for the run, about
const PACES = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]; // microseconds per second
const BAR = {
  label: "The GPU's SMs over time",
  slider: "Time",
  state: { speed: 10, head: 0, colouring: "query", window: [0, 1] },
  pause: 200,
  speeds: PACES,
  named: (pace) => `${pace < 1000 ? `${pace} µs` : `${pace / 1000} ms`} per s`,
  arrows: "to the block that starts or ends before, or next",
  options: [
    {
      ...{ name: "colouring", key: "c", label: "Colour by", choices: Object.keys(COLOURINGS) },
      named: (name) => `by ${COLOURINGS[name][0]}`,
      told: "colour by query block, head or wave",
    },
    {
      ...{ name: "whole", key: "0", words: "Whole run", act: (player) => player.zoomOut() },
      told: "the whole run; the wheel zooms, dragging moves",
    },
  ],
  keys: [
    {
      ...{ name: "↑ ↓", told: "another head (Shift: ten further)" },
      act: (player, far) => ({
        ArrowUp: () => player.moveHead(far ? -10 : -1),
        ArrowDown: () => player.moveHead(far ? 10 : 1),
      }),
    },
  ],
  guide: {
    line: "one SM; where it holds several blocks at once, they share its line",
    bar: "one thread block, from its start to its end",
    shade: "the later a block's query block, head or wave, the stronger its colour",
    pale: "still to come",
    HBM: "bytes read above the line and written below it, on the same clock",
    tail: "from when the first SM has nothing left to do until the end",
    wave: "how often the block's place on its SM had been filled before",
    tiles: "a block's visits are drawn at an even pace between its start and its end",
  },
};

class GpuPlayer extends TimedPlayer {
  static bar = BAR;
  static Model = Recorded;

  load(part) {
    const shortest = Math.min(...this.model.lanes.map(({ microseconds }) => microseconds));
    this.fraction = part ?? (0.45 * shortest) / this.model.longest; // all are at work
    this.head = Math.min(this.head, this.model.heads - 1);
    this.window = [0, this.model.longest];
    const far = (pace) => Math.abs(Math.log((pace * WHOLE_RUN) / this.model.longest));
    this.speed = PACES.reduce((best, pace) => (far(pace) < far(best) ? pace : best));
  }

  get hallType() {
    return 1.15; // so that SMs have room
  }

  // what is shown

  moveHead(by) {
    this.choose("head", clamp(this.head + by, 0, this.model.heads - 1));
  }

  /** The chart at a point, at its side of which the names of SMs stand. */
  chartAt({ offsetX: x, offsetY: y }) {
    const charts = this.stage.panels.filter((panel) => panel instanceof ChartPanel);
    return charts.find(
      ({ box, plot }) => x >= plot.x && x < plot.x + plot.w && y >= box.y && y < box.y + box.h,
    );
  }

  zoom(event) {
    const chart = this.chartAt(event);
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
    this.choose("window", [start, start + span]);
  }

  zoomOut() {
    this.show(0, this.model.longest);
  }

  press(event) {
    super.press();
    const heads = this.stage.panels.find((panel) => panel instanceof HeadsPanel),
      head = heads?.headAt(event.offsetX, event.offsetY) ?? NOWHERE;
    if (head !== NOWHERE) return this.choose("head", head);
    const chart = this.chartAt(event);
    if (!chart) return;
    this.held = { chart, x: event.offsetX, window: this.window, moved: false };
    this.stage.canvas.setPointerCapture(event.pointerId);
  }

  point(event) {
    if (!this.held) return super.point(event);
    const { chart, x, window } = this.held,
      [from, to] = window;
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

  // drawing

  layout() {
    return gpuLayout(this.model, this.stage);
  }

  moment() {
    const { at: time, head, colouring, window, model } = this,
      [unit, name] = unitOf(model.longest),
      step = unit > 1 ? 0.01 : model.longest < 1000 ? 0.1 : 1;
    return {
      view: { time, head, colouring, window },
      title: `${plural(model.sms, "SM")} over time`,
      sentence: sentence(model, time),
      where: `${microseconds(time / unit, step)} ${name}, ${grouped(1e6 / this.speed)}× slower`,
      length: duration(model.longest / 1e6),
      ...{ colouring, head, window },
    };
  }

  passing(seconds) {
    return seconds * this.speed;
  }
}

const show = showing(GpuPlayer, "__gpu");
export default show;
