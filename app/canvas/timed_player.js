// What pictures with a playhead over a run of their own share: moving in time, and the bar that they are played with.

import { clamp } from "./format.js";
import { Tip } from "./tip.js";
import { helpPage, Transport } from "./transport.js";
import { StageView } from "./view.js";

/**
 * A picture has `load(bytes)`, which sets `model` with its `longest` and `palettes`; `layout()`; `eventBeside(by)`,
 * where the next or the last event is; `passing(seconds)`, how much of the run passes in so many seconds of the
 * clock; `hover(x, y)`, what the pointer is on; and `draw()`.
 */
export class TimedPlayer extends StageView {
  /** `pause` is that of a calm clock, `state` what the picture remembers beside where it is, `at`. */
  constructor(parent, Controls, pause, state) {
    super(parent.querySelector(".player"), pause);
    Object.assign(this, state);
    this.tip = new Tip(this.root);
    this.controls = new Controls(this.root, this);
  }

  /** Where the run ends. */
  get last() {
    return this.model.longest;
  }

  step(by, far = false) {
    this.clock.stop();
    this.seek(far ? this.at + (by * this.last) / 20 : this.eventBeside(by));
  }

  setSpeed(speed) {
    this.speed = speed;
    this.draw();
  }

  faster(by) {
    const { speeds } = this.controls;
    this.setSpeed(speeds[clamp(speeds.indexOf(this.speed) + by, 0, speeds.length - 1)]);
  }

  press() {
    this.root.focus({ preventScroll: true });
  }

  point(event) {
    this.hover(event.offsetX, event.offsetY);
  }

  leave() {
    this.tip.hide();
  }

  /** The moment's words and the bar's marks; `name` is what the canvas shows. */
  tell(name, words) {
    const { fraction: part, playing, speed } = this;
    this.controls.show({ part, playing, speed, ...words });
    this.stage.canvas.setAttribute("aria-label", `${name}. ${words.sentence}`);
  }
}

/** The bar below: what is played adds its own buttons, keys and help. */
export class TimedControls extends Transport {
  /** `arrows` is where the arrow keys lead, `keys` are those of this picture alone, `guide` how it is read. */
  constructor(root, player, { speeds, named = (speed) => `${speed} ×`, arrows = "", keys = [], guide = [] }) {
    super(root, player);
    this.speeds = speeds;
    this.speed = root.querySelector('[data-is="speed"]');
    this.speed.append(...speeds.map((speed) => new Option(named(speed), speed)));
    this.speed.addEventListener("change", () => player.setSpeed(Number(this.speed.value)));
    this.slider.addEventListener("input", () =>
      player.seek((Number(this.slider.value) / Number(this.slider.max)) * player.last),
    );
    this.canvas.addEventListener("pointerdown", (event) => player.press(event));
    this.canvas.addEventListener("pointermove", (event) => player.point(event));
    this.canvas.addEventListener("pointerleave", () => player.leave());
    const usual = [
      ["Space", "play or pause"],
      ["← →", arrows],
      ["Shift ← →", "a twentieth of the run"],
      ["Home End", "to the start, to the end"],
    ];
    const last = [
      ["+ −", "faster, slower"],
      ["f", "full screen"],
      ["?", "this help"],
    ];
    this.help.innerHTML = helpPage([...usual, ...keys, ...last], guide);
  }

  keyActions(far) {
    return { ...super.keyActions(far), Escape: () => this.showHelp(false) };
  }

  /** All for a moment; only what differs is touched. */
  show(next) {
    const { shown, slider } = this;
    if (shown.part !== next.part) this.scrub(Math.round(next.part * slider.max), slider.max);
    if (shown.speed !== next.speed) this.speed.value = next.speed;
    super.show(next);
  }
}
