// What this picture adds to the bar below: the run in the ring, and its help.

import { TimedControls } from "../canvas/timed_player.js";

const SPEEDS = [0.25, 0.5, 1, 2, 4]; // of the way that the playhead walks by itself
const KEYS = [["m", "another run in the ring and the sentence"]];
const GUIDE = [
  ["colour", "a GPU, and the keys and values that it owns"],
  ["S", "rows and columns are chunks of the sequence; the strips at their edges say which GPU holds each"],
  ["ring", "outside a GPU's own colour, inside that of the keys with which it computes; empty: idle"],
  ["K V", "a block on its way from its owner"],
  ["line", "one GPU: computing above, transfers below; hatched: idle"],
  ["pale", "still to come"],
  ["merge", "m, l and O of all rounds become one"],
];

export class AcrossControls extends TimedControls {
  constructor(root, player) {
    const arrows = "to what starts or ends before, or next";
    super(root, player, { speeds: SPEEDS, arrows, keys: KEYS, guide: GUIDE });
    this.run = root.querySelector('[data-is="run"]');
    this.run.addEventListener("change", () => player.showRun(Number(this.run.value)));
  }

  /** The runs that there are to choose from. */
  offer(runs) {
    this.run.replaceChildren(...runs.map(({ name }, n) => new Option(name, n)));
    this.shown = {};
  }

  keyActions(far) {
    return { ...super.keyActions(far), m: () => this.player.nextRun() };
  }

  show(next) {
    if (this.shown.run !== next.run) this.run.value = next.run;
    super.show(next);
  }
}
