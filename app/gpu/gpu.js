// One canvas, one clock: a GPU's execution in slow motion.

import { cut } from "../canvas/cut.js";
import { clamp, duration, grouped, microseconds, plural, unitOf } from "../canvas/format.js";
import { LanesPlayer } from "../canvas/lane_chart.js";
import { showing } from "../canvas/showing.js";
import { NARROW } from "../canvas/stage.js";
import { ChartPanel } from "./chart.js";
import { Recorded } from "./placement.js";
import { sentence } from "./story.js";
import { TilesPanel } from "./tiles.js";

const WHOLE_RUN = 20; // seconds that the first pace takes for the run, about
const PACES = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]; // microseconds per second
const BAR = {
  label: "The GPU's SMs over time",
  slider: "Time",
  state: { speed: 10, head: 0 },
  pause: 200,
  speeds: PACES,
  named: (pace) => `${pace < 1000 ? `${pace} µs` : `${pace / 1000} ms`} per s`,
  arrows: "to the block that starts or ends before, or next",
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
    shade: "the later a block's query block, the stronger its colour",
    pale: "still to come",
    HBM: "bytes read above the line and written below it, on the same clock",
    tail: "from when the first SM has nothing left to do until the end",
    wave: "how often the block's place on its SM had been filled before",
    tiles: "a block's visits are drawn at an even pace between its start and its end",
  },
};

class GpuPlayer extends LanesPlayer {
  static bar = BAR;
  static Model = Recorded;

  load(part) {
    const { longest, heads } = this.model,
      far = (pace) => Math.abs(Math.log((pace * WHOLE_RUN) / longest));
    super.load(part);
    this.head = Math.min(this.head, heads - 1);
    this.speed = PACES.reduce((best, pace) => (far(pace) < far(best) ? pace : best));
  }

  get hallType() {
    return 1.15; // so that SMs have room
  }

  moveHead(by) {
    this.choose("head", clamp(this.head + by, 0, this.model.heads - 1));
  }

  /** Charts of all timelines at the left, what they compute at the right, on a phone below. */
  layout() {
    const { width: w, height: h, u } = this.stage,
      narrow = w < NARROW,
      side = narrow ? 220 * u : clamp(0.32 * w, 230 * u, 520 * u),
      [charts, tiles] = cut({ x: 0, y: 0, w, h }, narrow ? "y" : "x", (narrow ? 12 : 30) * u, [null, side]),
      { lanes } = this.model,
      each = cut(charts, "y", 12 * u, Array(lanes.length).fill(null));
    return [...lanes.map((lane, n) => [ChartPanel, each[n], { lane }]), [TilesPanel, tiles]];
  }

  moment() {
    const { at: time, head, model } = this,
      [unit, name] = unitOf(model.longest),
      step = unit > 1 ? 0.01 : model.longest < 1000 ? 0.1 : 1;
    return {
      view: { time, head },
      title: `${plural(model.sms, "SM")} over time`,
      sentence: sentence(model, time),
      where: `${microseconds(time / unit, step)} ${name}, ${grouped(1e6 / this.speed)}× slower`,
      length: duration(model.longest / 1e6),
      head,
    };
  }

  passing(seconds) {
    return seconds * this.speed;
  }
}

const show = showing(GpuPlayer, "__gpu");
export default show;
