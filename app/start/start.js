// The opening picture: a loop in which both algorithms set out together on the same work.

import { Clock } from "../canvas/clock.js";
import { clamp } from "../canvas/format.js";
import { readTheme, wear } from "../canvas/look.js";
import { Pen } from "../canvas/pen.js";
import { Stage } from "../canvas/stage.js";
import { flightsOf, LOOP, paceOf } from "./loop.js";
import { paintLane } from "./picture.js";

const CALM_PAUSE = 500; // ms that a picture stands for those who ask for less motion, and press Play
const STILL = 2; // seconds of the loop at which the picture stands for them: both are at work
const USUAL_TYPE = 13.5; // px of the page, at which the smallest words are legible
const FOOT = 2.6; // times that type: room for the button
const GAP = 14; // between the lanes
const views = new WeakMap(); // shadow root to view: the component's function runs again whenever its data change

class Opening {
  constructor(parent) {
    this.root = parent.querySelector(".opening");
    this.canvas = this.root.querySelector("canvas");
    this.button = this.root.querySelector("button");
    this.stage = new Stage(this.root, this.canvas);
    this.clock = new Clock(this.root, (seconds) => this.advance(seconds), CALM_PAUSE);
    this.still = this.clock.calm.matches;
    this.moment = this.still ? STILL : 0;
    this.button.addEventListener("click", () => this.toggle());
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.canvas);
  }

  release() {
    this.clock.stop();
    this.observer.disconnect();
  }

  update(data) {
    this.theme = readTheme(this.root, data.palettes);
    wear(this.root, this.theme);
    if (data.height) this.root.style.height = `${data.height}px`;
    const pace = paceOf(data.lanes);
    this.lanes = data.lanes.map((lane) => ({ lane, data, pace, flights: flightsOf(lane, data, pace) }));
    const words = ({ name, about }) => `${name}: ${about}.`;
    this.canvas.setAttribute("aria-label", data.lanes.map(words).join(" "));
    if (!this.still) this.clock.start();
    this.draw();
  }

  toggle() {
    this.still = false;
    if (this.clock.playing) this.clock.stop();
    else this.clock.start();
    this.draw();
  }

  /** Moves on by so many seconds of the clock, which takes longer steps for those who ask for less motion. */
  advance(seconds) {
    this.moment = (this.moment + seconds) % LOOP;
    this.draw();
  }

  draw() {
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

/** Streamlit calls this whenever the data or the theme change; the view of a shadow root is made once. */
export default function show({ data, parentElement }) {
  if (!data) return undefined;
  const view = views.get(parentElement) ?? new Opening(parentElement);
  views.set(parentElement, view);
  view.update(data);
  return () => view.release();
}
