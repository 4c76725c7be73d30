// What this picture adds to the transport: paces, colours, zoom, the pointer and its help.

import { helpPage, Transport } from "../canvas/transport.js";
import { COLOURINGS } from "./placement.js";

export const PACES = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]; // microseconds per second
const paceName = (pace) => `${pace < 1000 ? `${pace} µs` : `${pace / 1000} ms`} per s`;
const MARKS = 10000; // positions of the scrubber
const KEYS = [
  ["Space", "play or pause"],
  ["← →", "to the block that starts or ends before, or next"],
  ["Shift ← →", "a twentieth of the run"],
  ["Home End", "to the start, to the end"],
  ["↑ ↓", "another head (Shift: ten further)"],
  ["+ −", "faster, slower"],
  ["c", "colour by query block, head or wave"],
  ["0", "the whole run; the wheel zooms, dragging moves"],
  ["f", "full screen"],
  ["?", "this help"],
];
const GUIDE = [
  ["line", "one SM; where it holds several blocks at once, they share its line"],
  ["bar", "one thread block, from its start to its end"],
  ["shade", "the later a block's query block, head or wave, the stronger its colour"],
  ["pale", "still to come"],
  ["tail", "from when the first SM has nothing left to do until the end"],
  ["wave", "how often the block's place on its SM had been filled before"],
  ["tiles", "a block's visits are drawn at an even pace between its start and its end"],
];

export class GpuControls extends Transport {
  constructor(root, player) {
    super(root, player);
    [this.pace, this.colouring] = ["speed", "colouring"].map((name) =>
      root.querySelector(`[data-is="${name}"]`),
    );
    this.pace.append(...PACES.map((pace) => new Option(paceName(pace), pace)));
    this.colouring.append(
      ...Object.entries(COLOURINGS).map(([name, [words]]) => new Option(`by ${words}`, name)),
    );
    this.actions.whole = () => player.zoomOut();
    this.help.innerHTML = helpPage(KEYS, GUIDE);
    this.listen();
  }

  listen() {
    const { player, canvas } = this;
    this.slider.addEventListener("input", () =>
      player.seek((Number(this.slider.value) / MARKS) * player.model.longest),
    );
    this.pace.addEventListener("change", () => player.setPace(Number(this.pace.value)));
    this.colouring.addEventListener("change", () => player.setColouring(this.colouring.value));
    canvas.addEventListener("pointerdown", (event) => player.press(event));
    canvas.addEventListener("pointermove", (event) => player.point(event));
    canvas.addEventListener("pointerup", (event) => player.lift(event));
    canvas.addEventListener("pointerleave", () => player.leave());
    canvas.addEventListener("wheel", (event) => player.zoom(event), { passive: false });
    canvas.addEventListener("dblclick", () => player.zoomOut());
  }

  keyActions(far) {
    const { player, actions } = this;
    return {
      ...super.keyActions(far),
      0: actions.whole,
      c: () => player.nextColouring(),
      Escape: () => this.showHelp(false),
      ArrowUp: () => player.moveHead(far ? -10 : -1),
      ArrowDown: () => player.moveHead(far ? 10 : 1),
    };
  }

  /** All for a moment; only what differs is touched. */
  show(next) {
    const { shown } = this;
    if (shown.part !== next.part) this.scrub(Math.round(next.part * MARKS), MARKS);
    if (shown.pace !== next.pace) this.pace.value = next.pace;
    if (shown.colouring !== next.colouring) this.colouring.value = next.colouring;
    super.show(next);
  }
}
