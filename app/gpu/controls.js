// What this picture adds to the bar below: colours, zoom, the pointer and its help.

import { TimedControls } from "../canvas/timed_player.js";
import { COLOURINGS } from "./placement.js";

export const PACES = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]; // microseconds per second
const paceName = (pace) => `${pace < 1000 ? `${pace} µs` : `${pace / 1000} ms`} per s`;
const KEYS = [
  ["↑ ↓", "another head (Shift: ten further)"],
  ["c", "colour by query block, head or wave"],
  ["0", "the whole run; the wheel zooms, dragging moves"],
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

export class GpuControls extends TimedControls {
  constructor(root, player) {
    const arrows = "to the block that starts or ends before, or next";
    super(root, player, { speeds: PACES, named: paceName, arrows, keys: KEYS, guide: GUIDE });
    this.colouring = root.querySelector('[data-is="colouring"]');
    this.colouring.append(
      ...Object.entries(COLOURINGS).map(([name, [words]]) => new Option(`by ${words}`, name)),
    );
    this.colouring.addEventListener("change", () => player.setColouring(this.colouring.value));
    this.actions.whole = () => player.zoomOut();
    this.canvas.addEventListener("pointerup", (event) => player.lift(event));
    this.canvas.addEventListener("wheel", (event) => player.zoom(event), { passive: false });
    this.canvas.addEventListener("dblclick", () => player.zoomOut());
  }

  keyActions(far) {
    const { player, actions } = this;
    return {
      ...super.keyActions(far),
      0: actions.whole,
      c: () => player.nextColouring(),
      ArrowUp: () => player.moveHead(far ? -10 : -1),
      ArrowDown: () => player.moveHead(far ? 10 : 1),
    };
  }

  show(next) {
    if (this.shown.colouring !== next.colouring) this.colouring.value = next.colouring;
    super.show(next);
  }
}
