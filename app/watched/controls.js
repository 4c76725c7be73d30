// What this picture adds to the bar below: the way to the next marked tile, and its help.

import { TimedControls } from "../canvas/timed_player.js";

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
const KEYS = [
  ["n", "to the next marked tile"],
  ["r", "run the file again"],
];
const GUIDE = [
  ["tile", "a block of Q times a block of Kᵀ, as the kernel multiplied it"],
  ["striped, extra", "the mask hides all of it: wasted work"],
  ["striped, 2 ×", "visited more than once"],
  ["dashed, missing", "the mask leaves some of it, but nobody visited it"],
  ["pale stripes", "hidden by the mask"],
  ["line in a bar", "what FlashAttention-2 moves of that tensor"],
  ["wavy line", "a line with a finding, which stands below it"],
];

/** The page's own button: here while the picture has the focus, else the page hears the key itself. */
const runAgain = () => document.querySelector(".st-key-kernel_again button")?.click();

export class WatchedControls extends TimedControls {
  constructor(root, player) {
    super(root, player, { speeds: SPEEDS, arrows: "one step back, one on", keys: KEYS, guide: GUIDE });
    this.actions.finding = () => player.nextMark();
  }

  /** What there is to play. */
  suit({ longest, marked }) {
    this.slider.max = longest;
    this.root.querySelector('[data-do="finding"]').disabled = !marked?.size;
    this.shown = {};
  }

  keyActions(far) {
    return { ...super.keyActions(far), n: this.actions.finding, r: runAgain };
  }
}
