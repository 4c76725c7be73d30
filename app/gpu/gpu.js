// One canvas, one clock: a GPU's execution in slow motion.

import { cut } from "../canvas/cut.js";
import { capital, duration, grouped, percent, plural } from "../canvas/format.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { showing } from "../canvas/view.js";
import { ChartPanel } from "./chart.js";
import { Recorded } from "./placement.js";

const BAR = {
  label: "The GPU's SMs over time",
  guide: {
    line: "one SM; where it holds several blocks at once, they share its line",
    shade: "the later a block's query block, the stronger its colour",
    tail: "from when the first SM has nothing left to do until the end",
  },
};

/** What happens now, in one sentence, of the first lane. */
export function sentence(model, time) {
  const lane = model.lanes[0],
    { done, running, busy } = lane.at(time);
  const apart = model.lanes.some(({ origin }) => origin !== lane.origin) ? lane.source : lane.name;
  const name = model.lanes.length > 1 ? `${capital(apart)}: ` : "";
  if (time >= lane.microseconds) {
    return (
      `${name}${plural(lane.count, "block")} took ${duration(lane.microseconds / 1e6)}, and the SMs were busy ${percent(lane.busy)} of that time. ` +
      `In the last ${duration(lane.tail / 1e6)}, the tail, some had nothing left to do; the busiest worked ${percent(lane.imbalance)} longer than the average.`
    );
  }
  const idle = lane.used - busy,
    never = lane.sms - lane.used,
    tail = time >= lane.microseconds - lane.tail;
  const state = `${name}${plural(running, "block")} ${running === 1 ? "runs" : "run"} on ${busy} of ${lane.sms} SMs; ${grouped(done)} of ${grouped(lane.count)} ${done === 1 || lane.count === 1 ? "is" : "are"} done.`,
    few = lane.count < lane.sms ? ", because there are fewer blocks than SMs" : "";
  if (never) return `${state} ${plural(never, "SM")} never ${never === 1 ? "gets" : "get"} a block${few}.`;
  if (!idle) return `${state} No SM is idle.`;
  const [waits, has] = idle === 1 ? ["waits", "has"] : ["wait", "have"];
  return tail
    ? `${state} In this tail, ${plural(idle, "SM")} ${has} nothing left to do.`
    : `${state} ${plural(idle, "SM")} ${waits}.`;
}

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
