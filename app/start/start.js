// The opening picture: a loop in which both algorithms set out together on the same work.

import { clamp } from "../canvas/format.js";
import { Pen } from "../canvas/pen.js";
import { showing } from "../canvas/showing.js";
import { Stage } from "../canvas/stage.js";
import { View } from "../canvas/view.js";
import { flightsOf, LOOP, paceOf } from "./loop.js";
import { paintLane } from "./picture.js";

const CALM_PAUSE = 500; // ms that a picture stands for those who ask for less motion, and press Play
const STILL = 2; // seconds of the loop at which the picture stands for them: both are at work
const USUAL_TYPE = 13.5; // px of the page, at which the smallest words are legible
const FOOT = 2.6; // times that type: room for the button
const GAP = 14; // between the lanes

class Opening extends View {
  constructor(parent) {
    const root = parent.querySelector(".opening"),
      canvas = root.querySelector("canvas");
    super(root, canvas, CALM_PAUSE);
    Object.assign(this, { canvas, button: root.querySelector("button"), stage: new Stage(root, canvas) });
    this.still = this.clock.calm.matches;
    this.moment = this.still ? STILL : 0;
    this.button.addEventListener("click", () => this.toggle());
  }

  update(data) {
    this.dress(data.palettes);
    if (data.height) this.root.style.height = `${data.height}px`;
    const pace = paceOf(data.lanes);
    this.lanes = data.lanes.map((lane) => ({ lane, data, pace, flights: flightsOf(lane, data, pace) }));
    const words = ({ name, about }) => `${name}: ${about}.`;
    this.canvas.setAttribute("aria-label", data.lanes.map(words).join(" "));
    if (!this.still) this.clock.start();
    this.fit();
  }

  toggle() {
    this.still = false;
    if (this.clock.playing) this.clock.stop();
    else this.clock.start();
    this.fit();
  }

  /** Moves on by so many seconds of the clock, which takes longer steps for those who ask for less motion. */
  advance(seconds) {
    this.moment = (this.moment + seconds) % LOOP;
    this.fit();
  }

  /** Draws this moment in the room that there is. */
  fit() {
    const { width, height } = this.canvas.getBoundingClientRect(),
      dpr = window.devicePixelRatio || 1,
      type = parseFloat(getComputedStyle(document.documentElement).fontSize),
      least = Math.max(1, type / USUAL_TYPE), // a presenter's type is larger
      u = clamp(Math.min(width / 640, height / 430), least, Math.max(1.5, least)),
      { stage } = this;
    if (!width || !this.lanes) return;
    if (width !== stage.width || height !== stage.height || dpr !== stage.dpr)
      stage.resize(width, height, dpr, u);
    stage.ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    stage.ctx.clearRect(0, 0, width, height);
    const pen = new Pen(stage.ctx, this.theme, u),
      foot = FOOT * type,
      h = (height - foot - GAP * u) / 2;
    this.lanes.forEach((lane, n) => {
      const box = { x: 0, y: n * (h + GAP * u), w: width, h };
      paintLane(pen, box, { ...lane, moment: this.moment, still: this.still });
    });
    const label = this.clock.playing ? "Pause" : "Play";
    if (this.button.textContent !== label) this.button.textContent = label;
    this.root.dataset.moment = this.moment.toFixed(2);
  }
}

const show = showing(Opening);
export default show;
