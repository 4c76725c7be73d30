// The playhead over the picture: where it stands, what happens there in words, and its walk while it plays.

import { Film } from "../canvas/film.js";
import { duration } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { Transport } from "../canvas/transport.js";
import { PlayedView } from "../canvas/view.js";
import { leftOf, pictureOf, placedRows, ROW, sentenceAt } from "./picture.js";

const WALK_SECONDS = 24; // from the first mark to the last
const CALM_PAUSE = 400; // ms between a calm playhead's moves
const STANDS = 700; // ms that words stand for at least while it plays
const FIRST_LOOK = 2; // the first group's softmax, counted from 0, in whose middle the playhead stands at first
const STEPS = 1000; // positions of the scrubber
const STEP = 0.01; // of the way, by an arrow key
const USUAL_TYPE = 14; // px, of the page; a presenter's is larger

/** The bar below: it adds two keys to play and scrub. */
class InsideTransport extends Transport {
  constructor(root, view) {
    super(root, view);
    this.slider.addEventListener("input", () => view.seek(this.slider.value / STEPS));
  }

  keyActions(_, target) {
    const { actions } = this;
    if (target === this.slider) return { " ": actions.play, Enter: actions.play }; // arrows move it by themselves
    return { " ": actions.play, Enter: actions.play, ArrowLeft: actions.back, ArrowRight: actions.forward };
  }
}

/** The picture in a film: drawn once, with the playhead and what is under way drawn over it. */
class FilmPanel {
  follows = ["at"];

  layout({ w, h }) {
    const { rows, height } = placedRows(this.model),
      unit = Math.min(this.u, h / height),
      across = w / unit,
      svg = pictureOf(this.model, across, this.theme, 1).replace(/<line class="head".*?>/, "");
    Object.assign(this, { rows, height, unit, across, image: new Image() });
    const sized = svg.replace("<svg", `<svg xmlns="http://www.w3.org/2000/svg" width="${across}"`);
    this.image.src = `data:image/svg+xml,${encodeURIComponent(sized)}`;
  }

  paint(pen, { x, y, w }, { at }) {
    const { model, rows, height, unit, across, image, theme } = this,
      left = leftOf(across),
      placed = (seconds) => x + (left + (seconds / model.seconds) * (across - left - 8)) * unit,
      now = at * model.seconds;
    pen.ctx.drawImage(image, x, y, w, height * unit);
    for (const row of rows)
      for (const [, , start, end] of row.marks ?? [])
        if (now >= start && now < end)
          pen.frame(
            placed(start),
            y + row.y * unit,
            placed(end) - placed(start),
            ROW * unit,
            theme.edge,
            2 * unit,
          );
    pen.box(placed(now) - unit, y, 2 * unit, (height - 18) * unit, theme.edge, 0);
  }
}

class InsideView extends PlayedView {
  constructor(parent) {
    const root = parent.querySelector(".inside"),
      picture = root.querySelector(".picture");
    super(root, picture, CALM_PAUSE);
    Object.assign(this, { picture, at: null, last: 1 }); // shares of the way
    this.controls = new InsideTransport(root, this);
    root.player = this; // whoever makes files of the page finds it here
  }

  get model() {
    return this.data;
  }

  get takeHome() {
    const film = async (options) => {
      const made = new Film(this, options);
      await made.stage.panels[0].image.decode();
      return made;
    };
    return { title: "Inside one thread block: picture, animation", film, files: {} };
  }

  get hallType() {
    return 1.4;
  }

  layout() {
    const { width: w, height: h } = this.stage;
    return [[FilmPanel, { x: 0, y: 0, w, h }]];
  }

  moment() {
    const { at, data } = this,
      seconds = at * data.seconds;
    return {
      view: { at },
      sentence: this.standing(STANDS, () => sentenceAt(data, seconds)),
      where: `${duration(seconds)} of ${duration(data.seconds)}`,
      length: "modelled",
    };
  }

  update(data) {
    const told = JSON.stringify(data);
    if (!this.dress(data.palettes) && told === this.told) return;
    Object.assign(this, { data, told, width: 0 });
    this.at ??= this.telling();
    this.fit();
  }

  /** The share of the way at which softmax and products are under way at once. */
  telling() {
    const { lanes, operations } = this.data,
      softmax = lanes
        .map(({ marks }) => marks.filter(([operation]) => operations[operation].row === "softmax"))
        .find((marks) => marks.length);
    const [, , start, end] = softmax[Math.min(FIRST_LOOK, softmax.length - 1)];
    return (start + end) / 2 / this.data.seconds;
  }

  fit(anyway = false) {
    const { clientWidth } = this.picture;
    if (!this.data || !clientWidth) return;
    const u = this.unit();
    if (!anyway && clientWidth === this.width && u === this.u) return;
    Object.assign(this, { u, width: clientWidth, across: clientWidth / u });
    this.picture.innerHTML = pictureOf(this.data, this.across, this.theme, u);
    this.head = this.picture.querySelector(".head");
    this.left = leftOf(this.across);
    this.draw();
  }

  /** How large the picture is: it grows with the page's type. */
  unit() {
    return Math.max(1, parseFloat(getComputedStyle(document.documentElement).fontSize) / USUAL_TYPE);
  }

  draw() {
    const seconds = this.at * this.data.seconds,
      x = this.left + this.at * (this.across - this.left - 8);
    this.head.setAttribute("x1", x);
    this.head.setAttribute("x2", x);
    for (const mark of this.picture.querySelectorAll("g[data-start]")) {
      const lit = seconds >= mark.dataset.start && seconds < mark.dataset.end;
      mark.querySelector("rect").style.stroke = lit ? this.theme.edge : "";
    }
    this.controls.scrub(Math.round(this.at * STEPS), STEPS);
    this.controls.show({ ...this.moment(), playing: this.playing });
    this.share();
  }

  get time() {
    return this.at * this.end;
  }

  set time(time) {
    this.at = Math.min(1, time / this.end);
  }

  get end() {
    return this.data.seconds;
  }

  step(by) {
    this.seek(this.at + by * STEP);
  }

  passing(seconds) {
    return seconds / WALK_SECONDS;
  }
}

const show = showing(InsideView);
export default show;
