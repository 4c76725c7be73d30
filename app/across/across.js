// One canvas, one clock: a sequence over several GPUs.

import { duration, plural } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { LanesPanel } from "./lanes.js";
import { acrossLayout } from "./layout.js";
import { Runs } from "./run.js";
import { sentence } from "./story.js";

const STANDS = 900; // ms that words stand for at least while it plays
const BAR = {
  label: "One sequence over several GPUs",
  slider: "Time",
  state: { speed: 1, shown: 0 },
  speeds: [0.25, 0.5, 1, 2, 4], // of the way that the playhead walks by itself
  arrows: "to what starts or ends before, or next",
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
    "K V": "a block on its way from its owner",
    line: "one GPU: computing above, transfers below; hatched: idle",
    pale: "still to come",
    merge: "m, l and O of all rounds become one",
  },
};

class AcrossPlayer extends TimedPlayer {
  static bar = BAR;
  static Model = Runs;

  load(part) {
    const { runs } = this.model;
    if (part === null) this.at = runs[0].telling();
    else this.fraction = part;
    this.shown = Math.min(this.shown, runs.length - 1);
    this.controls.offer(
      "shown",
      runs.map((_, n) => n),
      (n) => runs[n].name,
    );
  }

  eventBeside(by) {
    return this.model.runs[this.shown].eventBeside(this.at, by);
  }

  /** A press on a run's lanes goes to that moment, and shows the run. */
  press(event) {
    super.press();
    const lanes = this.stage.panels.filter((panel) => panel instanceof LanesPanel),
      chart = lanes.find((panel) => panel.holds(event.offsetX, event.offsetY));
    if (!chart) return;
    this.shown = chart.number;
    this.seek(chart.timeAt(event.offsetX));
  }

  layout() {
    return acrossLayout(this.model, this.stage);
  }

  moment() {
    const { at: time, shown, model } = this;
    return {
      view: { time, shown },
      title: `${plural(model.gpus, "GPU")} over time`,
      sentence: this.standing(STANDS, () => sentence(model, model.runs[shown], time)),
      where: `${duration(time / 1e6)} of ${duration(model.longest / 1e6)}`,
      length: model.runs[shown].origin,
      shown,
    };
  }
}

const show = showing(AcrossPlayer, "__across");
export default show;
