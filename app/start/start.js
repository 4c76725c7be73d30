// The opening picture: a loop in which both algorithms set out together on the same work.

import { clamp } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { CanvasView } from "../canvas/view.js";
import { flightsOf, LOOP, paceOf } from "./loop.js";
import { paintLane } from "./picture.js";

const CALM_PAUSE = 500; // ms that a picture stands for those who ask for less motion, and press Play
const STILL = 2; // seconds of the loop at which the picture stands for them: both are at work
const USUAL_TYPE = 13.5; // px of the page, at which the smallest words are legible
const FOOT = 2.6; // times that type: room for the button
const GAP = 14; // between the lanes

class Opening extends CanvasView {
  constructor(parent) {
    super(parent.querySelector(".opening"), CALM_PAUSE);
    this.button = this.root.querySelector("button");
    this.still = this.clock.calm.matches;
    if (this.still) this.moment = STILL;
    this.button.addEventListener("click", () => this.toggle());
  }

  update(data) {
    if (data.height) this.root.style.height = `${data.height}px`;
    const pace = paceOf(data.lanes);
    this.lanes = data.lanes.map((lane) => ({ lane, data, pace, flights: flightsOf(lane, data, pace) }));
    const words = ({ name, about }) => `${name}: ${about}.`;
    this.stage.canvas.setAttribute("aria-label", data.lanes.map(words).join(" "));
    if (!this.still) this.clock.start();
    super.update(data);
  }

  toggle() {
    this.still = false;
    if (this.clock.playing) this.clock.stop();
    else this.clock.start();
    this.fit();
  }

  /** Px of the page's type: a presenter's is larger. */
  get type() {
    return parseFloat(getComputedStyle(document.documentElement).fontSize);
  }

  unit(width, height) {
    const least = Math.max(1, this.type / USUAL_TYPE);
    return clamp(Math.min(width / 640, height / 430), least, Math.max(1.5, least));
  }

  paint(pen, w, height) {
    const moment = this.moment % LOOP,
      gap = GAP * pen.u,
      h = (height - FOOT * this.type - gap) / 2;
    this.lanes.forEach((lane, n) =>
      paintLane(pen, { x: 0, y: n * (h + gap), w, h }, { ...lane, moment, still: this.still }),
    );
    const label = this.clock.playing ? "Pause" : "Play";
    if (this.button.textContent !== label) this.button.textContent = label;
    this.root.dataset.moment = moment.toFixed(2);
  }
}

const show = showing(Opening);
export default show;
