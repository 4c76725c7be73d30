// One canvas, one clock: a sequence over several GPUs.

import { cut } from "../canvas/cut.js";
import { clamp, duration, plural } from "../canvas/format.js";
import { NARROW } from "../canvas/stage.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { showing } from "../canvas/view.js";
import { GridPanel } from "./grid.js";
import { LanesPanel } from "./lanes.js";
import { CirclePanel } from "./ring.js";
import { Runs } from "./run.js";
import { sentence } from "./story.js";

const MOST_GRIDS = 2,
  LEAST_RING = 190; // units of height that a ring with its blocks takes
const BAR = {
  label: "One sequence over several GPUs",
  state: { speed: 1, shown: 0 },
  options: [
    {
      ...{ name: "shown", key: "m", label: "Run in the ring", choices: [] },
      told: "another run in the ring and the sentence",
    },
  ],
  guide: {
    colour: "a GPU, and the keys and values that it owns",
    S: "rows and columns are chunks of the sequence; the strips at their edges say which GPU holds each",
    ring: "outside a GPU's own colour, inside that of the keys with which it computes; empty: idle",
    line: "one GPU: computing above, transfers below; hatched: idle",
  },
};

/** Grids above the ring at the left, lanes of all runs at the right; on a phone the lanes below. */
export function acrossLayout({ runs }, { width: w, height: h, u }) {
  const narrow = w < NARROW,
    [gap, between] = [24 * u, 16 * u],
    grids = [...runs.keys()].filter((n) => runs[n].ring).slice(0, MOST_GRIDS),
    columns = grids.map(() => null),
    split = (box) => cut(box, "x", gap, columns),
    highOf = (side, most) => Math.min(split({ x: 0, w: side })[0].w + 20 * u, most),
    usual = clamp(0.31 * w, 300 * u, 520 * u),
    low = !narrow && h - highOf(usual, 0.52 * h) - between < LEAST_RING * u,
    side = narrow ? w : low ? 0.42 * w : usual, // a low picture has the grids alone, and larger
    high = highOf(side, narrow ? 0.28 * h : low ? h : 0.52 * h),
    circle = narrow ? 0.3 * h : h - high - between,
    x = narrow ? 0 : side + gap,
    y = narrow ? high + circle + 2 * between : 0,
    lanes = cut({ x, y, w: w - x, h: h - y - between }, "y", 0, Array(runs.length).fill(null)),
    boxes = split({ x: 0, y: 0, w: side, h: high });
  lanes.at(-1).h += between; // of its axis
  return [
    ...grids.map((number, n) => [GridPanel, boxes[n], { number }]),
    ...(low ? [] : [[CirclePanel, { x: 0, y: high + between, w: side, h: circle }]]),
    ...lanes.map((box, number) => [LanesPanel, box, { number, lowest: number === runs.length - 1 }]),
  ];
}

class AcrossPlayer extends TimedPlayer {
  static bar = BAR;
  static Model = Runs;

  load(part) {
    const { runs } = this.model;
    super.load(part);
    this.shown = Math.min(this.shown, runs.length - 1);
    this.controls.offer("shown", [...runs.keys()], (n) => runs[n].name);
  }

  eventBeside(by) {
    return this.model.runs[this.shown].eventBeside(this.at, by);
  }

  layout() {
    return acrossLayout(this.model, this.stage);
  }

  moment() {
    const { at: time, shown, model } = this,
      run = model.runs[shown];
    return {
      view: { time, shown },
      title: `${plural(model.gpus, "GPU")} over time`,
      sentence: this.standing(() => sentence(model, run, time)),
      where: `${duration(time / 1e6)} of ${duration(model.longest / 1e6)}`,
      length: run.origin,
      shown,
    };
  }
}

export default showing(AcrossPlayer);
