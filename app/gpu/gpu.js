// One canvas, one clock: a GPU's execution in slow motion.

import { cut } from "../canvas/cut.js";
import { duration, plural } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { ChartPanel } from "./chart.js";
import { Recorded } from "./placement.js";
import { sentence } from "./story.js";

const BAR = {
  label: "The GPU's SMs over time",
  guide: {
    line: "one SM; where it holds several blocks at once, they share its line",
    shade: "the later a block's query block, the stronger its colour",
    tail: "from when the first SM has nothing left to do until the end",
  },
};

class GpuPlayer extends TimedPlayer {
  static bar = BAR;
  static Model = Recorded;

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
    const { at: time, model } = this;
    return {
      view: { time },
      title: `${plural(model.sms, "SM")} over time`,
      sentence: sentence(model, time),
      where: this.microsecondsWords,
      length: duration(model.longest / 1e6),
    };
  }
}

export default showing(GpuPlayer);
