// A curve to predict: whoever looks draws it; later the truth stands there, among what a room has drawn.

import { clamp, grouped } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { roomUnit } from "../canvas/stage.js";
import { veil } from "../canvas/theme.js";
import { CanvasView } from "../canvas/view.js";

const COLUMNS = 33; // points of a curve, equally far apart
const NARROW = 360; // units, below which every other length has room
const TILT = 20; // of the highest point, by an arrow key
let mine = []; // what was drawn in this window; empty until something is

class Sketch extends CanvasView {
  constructor(parent) {
    super(parent.querySelector(".sketch"), 0);
    const { canvas } = this.stage;
    canvas.onpointerdown = (event) => this.begin(event);
    canvas.onpointermove = (event) => this.pen && this.to(event);
    canvas.onpointerup = canvas.onpointercancel = () => this.end();
    canvas.onkeydown = (event) => this.tilt(event);
    addEventListener("message", ({ source, data }) => {
      if (source !== parent.ownerDocument.defaultView.parent || !data.curve) return; // a room's phone remembers it
      mine = data.curve;
      this.fit();
    });
  }

  update(data) {
    super.update(data);
    this.root.querySelector(".about").textContent = data.about;
    this.stage.canvas.setAttribute("aria-label", `Time over the number of tokens. ${data.about}`);
  }

  unit(width) {
    return Math.max(clamp(width / 700, 1.25, 1.6), roomUnit(this.root));
  }

  // drawing by hand

  begin(event) {
    if (this.data.truth.length) return;
    this.stage.canvas.setPointerCapture(event.pointerId);
    if (!mine.length) mine = Array(COLUMNS).fill(0);
    this.pen = this.at(event);
    this.to(event);
  }

  /** The column and the height of a pointer. */
  at({ offsetX, offsetY }) {
    const { x, y, w, h } = this.plot,
      { high } = this.data;
    return [
      Math.round(clamp((offsetX - x) / w, 0, 1) * (COLUMNS - 1)),
      Math.round(clamp((y + h - offsetY) / h, 0, 1) * high),
    ];
  }

  /** Every column that the pointer has passed since it was last heard; the curve begins where it is known. */
  to(event) {
    const [[from, low], [column, height]] = [this.pen, this.at(event)],
      steps = Math.max(1, Math.abs(column - from));
    for (let n = 0; n <= steps; n++)
      mine[Math.round(from + ((column - from) * n) / steps)] = Math.round(low + ((height - low) * n) / steps);
    mine[0] = 0;
    if (!this.furthest || column >= this.furthest) {
      this.furthest = column; // beyond the pen it goes on as it was
      mine.fill(mine[column], column);
    }
    this.pen = [column, height];
    this.fit();
  }

  end() {
    if (!this.pen) return;
    this.pen = null;
    this.send();
  }

  /** Arrows tilt a straight line, for those who use keys. */
  tilt(event) {
    const by = { ArrowUp: TILT, ArrowDown: -TILT }[event.key],
      { high, truth } = this.data;
    if (!by || truth.length) return;
    event.preventDefault();
    event.stopPropagation();
    const end = clamp((mine.at(-1) ?? 0) + by, 0, high);
    mine = Array.from({ length: COLUMNS }, (_, n) => Math.round((end * n) / (COLUMNS - 1)));
    this.fit();
    this.send();
  }

  /** A phone's page hears what was drawn in its frame. */
  send() {
    if (window.parent !== window) window.parent.postMessage({ curve: mine }, "*");
  }

  // the picture

  paint(pen, width, height) {
    const { u, theme } = pen,
      { lengths, marks, high, cloud, truth } = this.data;
    this.plot = { x: 62 * u, y: 26 * u, w: width - 82 * u, h: height - 62 * u };
    const { x, y, w, h } = this.plot,
      top = (value) => y + h - (value / high) * h;
    pen.note("times as long", x - 54 * u, 14 * u);
    for (const [times, at] of marks) {
      pen.rule(x, top(at), w);
      pen.right(`${grouped(times)} ×`, x - 8 * u, top(at) + 4 * u, {
        size: 12.5,
        mono: true,
        color: theme.muted,
      });
    }
    lengths.forEach((tokens, n) => {
      if (n % 2 && w < NARROW * u) return;
      const at = x + (n / (lengths.length - 1)) * w,
        align = ["left", ...Array(lengths.length - 2).fill("center"), "right"][n];
      pen.text(grouped(tokens), at, y + h + 18 * u, { size: 12.5, mono: true, color: theme.muted, align });
    });
    pen.right("tokens", x + w, y + h + 34 * u, { size: 12.5, color: theme.muted });
    for (const curve of cloud)
      this.line(pen, curve, veil(theme.Q, Math.max(0.07, 0.5 / Math.sqrt(cloud.length))), 2);
    this.line(pen, mine, theme.Q, 3.5);
    this.line(pen, truth, theme.O, 5);
    if (truth.length)
      pen.right("modelled", x + w, top(truth.at(-1)) - 12 * u, {
        weight: 650,
        color: theme.O,
        halo: theme.ground,
      });
    pen.box(x - 5 * u, y + h - 5 * u, 10 * u, 10 * u, theme.ink, 5);
  }

  line({ ctx, u }, curve, color, thick) {
    const { x, y, w, h } = this.plot;
    Object.assign(ctx, { strokeStyle: color, lineWidth: thick * u, lineJoin: "round", lineCap: "round" });
    ctx.beginPath();
    curve.forEach((value, n) =>
      ctx.lineTo(x + (n / (curve.length - 1)) * w, y + h - (value / this.data.high) * h),
    );
    ctx.stroke();
  }
}

const show = showing(Sketch);
export default show;
