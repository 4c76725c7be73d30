// What this picture adds to the transport: speeds, the way to the next marked tile, and its help.

import { helpPage, Transport } from "../canvas/transport.js";

export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
const KEYS = [
  ["Space", "play or pause"],
  ["← →", "one step back, one on"],
  ["Shift ← →", "a twentieth of the run"],
  ["Home End", "to the start, to the end"],
  ["n", "to the next marked tile"],
  ["r", "run the file again"],
  ["+ −", "faster, slower"],
  ["f", "full screen"],
  ["?", "this help"],
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

export class WatchedControls extends Transport {
  constructor(root, player) {
    super(root, player);
    this.speed = root.querySelector('[data-is="speed"]');
    this.speed.append(...SPEEDS.map((speed) => new Option(`${speed} ×`, speed)));
    this.help.innerHTML = helpPage(KEYS, GUIDE);
    this.actions.finding = () => player.nextMark();
    const { canvas } = this;
    this.slider.addEventListener("input", () => player.seek(Number(this.slider.value)));
    this.speed.addEventListener("change", () => player.setSpeed(Number(this.speed.value)));
    canvas.addEventListener("pointermove", (event) => player.hover(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerleave", () => player.leave());
  }

  /** What there is to play. */
  suit({ longest, marked }) {
    this.slider.max = longest;
    this.root.querySelector('[data-do="finding"]').disabled = !marked?.size;
    this.shown = {};
  }

  keyActions(far) {
    const { actions } = this;
    return { ...super.keyActions(far), n: actions.finding, r: runAgain, Escape: () => this.showHelp(false) };
  }

  show(next) {
    const { shown } = this;
    if (shown.position !== next.position) this.scrub(next.position, next.last);
    if (shown.speed !== next.speed) this.speed.value = next.speed;
    super.show(next);
  }
}
