// What this picture adds to the transport: speeds, the run in the ring, the pointer and its help.

import { helpPage, Transport } from "../canvas/transport.js";

export const SPEEDS = [0.25, 0.5, 1, 2, 4]; // of the way that the playhead walks by itself
const MARKS = 10000; // positions of the scrubber
const KEYS = [
  ["Space", "play or pause"],
  ["← →", "to what starts or ends before, or next"],
  ["Shift ← →", "a twentieth of the run"],
  ["Home End", "to the start, to the end"],
  ["m", "another run in the ring and the sentence"],
  ["+ −", "faster, slower"],
  ["f", "full screen"],
  ["?", "this help"],
];
const GUIDE = [
  ["colour", "a GPU, and the keys and values that it owns"],
  ["S", "rows and columns are chunks of the sequence; the strips at their edges say which GPU holds each"],
  ["ring", "outside a GPU's own colour, inside that of the keys with which it computes; empty: idle"],
  ["K V", "a block on its way from its owner"],
  ["line", "one GPU: computing above, transfers below; hatched: idle"],
  ["pale", "still to come"],
  ["merge", "m, l and O of all rounds become one"],
];

export class AcrossControls extends Transport {
  constructor(root, player) {
    super(root, player);
    [this.speed, this.run] = ["speed", "run"].map((name) => root.querySelector(`[data-is="${name}"]`));
    this.speed.append(...SPEEDS.map((speed) => new Option(`${speed} ×`, speed)));
    this.help.innerHTML = helpPage(KEYS, GUIDE);
    const { canvas } = this;
    this.slider.addEventListener("input", () =>
      player.seek((Number(this.slider.value) / MARKS) * player.model.longest),
    );
    this.speed.addEventListener("change", () => player.setSpeed(Number(this.speed.value)));
    this.run.addEventListener("change", () => player.showRun(Number(this.run.value)));
    canvas.addEventListener("pointerdown", (event) => player.press(event));
    canvas.addEventListener("pointermove", (event) => player.hover(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerleave", () => player.leave());
  }

  /** The runs that there are to choose from. */
  offer(runs) {
    this.run.replaceChildren(...runs.map(({ name }, n) => new Option(name, n)));
  }

  keyActions(far) {
    const { player } = this;
    return {
      ...super.keyActions(far),
      m: () => player.nextRun(),
      Escape: () => this.showHelp(false),
    };
  }

  /** All for a moment; only what differs is touched. */
  show(next) {
    const { shown } = this;
    if (shown.part !== next.part) this.scrub(Math.round(next.part * MARKS), MARKS);
    if (shown.speed !== next.speed) this.speed.value = next.speed;
    if (shown.run !== next.run) this.run.value = next.run;
    super.show(next);
  }
}
