// One canvas, one clock: a GPU's execution in slow motion.

import { cut } from "../canvas/cut.js";
import { duration, grouped, microseconds, plural, unitOf } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { ChartPanel } from "./chart.js";
import { Recorded } from "./placement.js";
import { sentence } from "./story.js";

const WHOLE_RUN = 20; // seconds that the first pace takes for the run, about
const PACES = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]; // microseconds per second
const BAR = {
  label: "The GPU's SMs over time",
  state: { speed: 10 },
  speeds: PACES,
  named: (pace) => `${pace < 1000 ? `${pace} µs` : `${pace / 1000} ms`} per s`,
  guide: {
    line: "one SM; where it holds several blocks at once, they share its line",
    shade: "the later a block's query block, the stronger its colour",
    tail: "from when the first SM has nothing left to do until the end",
  },
};

class GpuPlayer extends TimedPlayer {
  static bar = BAR;
  static Model = Recorded;

  load(part) {
    const { longest } = this.model,
      far = (pace) => Math.abs(Math.log((pace * WHOLE_RUN) / longest));
    super.load(part);
    this.speed = PACES.reduce((best, pace) => (far(pace) < far(best) ? pace : best));
  }

  get hallType() {
    return 1.15; // so that SMs have room
  }

  layout() {
    const { width: w, height: h, u } = this.stage,
      { lanes } = this.model,
      boxes = cut({ x: 0, y: 0, w, h }, "y", 12 * u, Array(lanes.length).fill(null));
    return lanes.map((lane, n) => [ChartPanel, boxes[n], { lane }]);
  }

  moment() {
    const { at: time, model } = this,
      [unit, name] = unitOf(model.longest),
      step = unit > 1 ? 0.01 : model.longest < 1000 ? 0.1 : 1;
    return {
      view: { time },
      title: `${plural(model.sms, "SM")} over time`,
      sentence: sentence(model, time),
      where: `${microseconds(time / unit, step)} ${name}, ${grouped(1e6 / this.speed)}× slower`,
      length: duration(model.longest / 1e6),
    };
  }

  passing(seconds) {
    return seconds * this.speed;
  }
}

export default showing(GpuPlayer);
