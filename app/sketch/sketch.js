// A prediction to draw: whoever looks draws it; later the truth grows there, among what a room has drawn.

import { between, clamp, grouped } from "../canvas/format.js";
import { roomUnit, Stage } from "../canvas/stage.js";
import { veil } from "../canvas/theme.js";
import { showing, View } from "../canvas/view.js";

const COLUMNS = 33; // points of a curve, equally far apart
const NARROW = 360; // units, below which every other length has room
const GROWS = 5; // seconds in which the truth is drawn
const mine = {}; // what was drawn in this window, by what it is

/** A curve over the length: its points are heights, from 0 to `high`. */
class Curve {
  layout({ u }, width, height) {
    this.box = { x: 62 * u, y: 26 * u, w: width - 82 * u, h: height - 62 * u };
  }

  place(value, part) {
    const { x, y, w, h } = this.box;
    return [x + part * w, y + h - (value / this.high) * h];
  }

  apart() {
    return false;
  }

  /** The column and the height of a pointer. */
  at({ offsetX, offsetY }) {
    const { x, y, w, h } = this.box,
      on = (part, most) => Math.round(clamp(part, 0, 1) * most);
    return [on((offsetX - x) / w, COLUMNS - 1), on((y + h - offsetY) / h, this.high)];
  }

  begin(drawn, event) {
    this.pen = this.at(event);
    return drawn.length ? drawn : Array(COLUMNS).fill(0);
  }

  /** Every column that the pointer has passed since it was last heard; the curve begins where it is known. */
  to(drawn, event) {
    const [[from, low], [column, height]] = [this.pen, this.at(event)],
      steps = Math.max(1, Math.abs(column - from));
    for (let n = 0; n <= steps; n++) {
      const [at, level] = [between(from, column, n / steps), between(low, height, n / steps)];
      drawn[Math.round(at)] = Math.round(level);
    }
    drawn[0] = 0;
    if (!this.furthest || column >= this.furthest) {
      this.furthest = column; // beyond the pen it goes on as it was
      drawn.fill(drawn[column], column);
    }
    this.pen = [column, height];
    return drawn;
  }

  ground(pen) {
    const { u, theme } = pen,
      { lengths, marks } = this,
      { x, y, w, h } = this.box,
      style = { size: 12.5, mono: true, color: theme.muted };
    pen.note("times as long", x - 54 * u, 14 * u);
    for (const [times, at] of marks) {
      const [, level] = this.place(at, 0);
      pen.rule(x, level, w);
      pen.right(`${grouped(times)} ×`, x - 8 * u, level + 4 * u, style);
    }
    lengths.forEach((tokens, n) => {
      if (n % 2 && w < NARROW * u) return;
      const at = x + (n / (lengths.length - 1)) * w,
        align = ["left", ...Array(lengths.length - 2).fill("center"), "right"][n];
      pen.text(grouped(tokens), at, y + h + 18 * u, { ...style, align });
    });
    pen.right("tokens", x + w, y + h + 34 * u, { size: 12.5, color: theme.muted });
  }

  labels(pen, _, truth) {
    const { u, theme } = pen,
      { x, y, h } = this.box;
    if (truth.length) {
      const [right, top] = this.place(truth.at(-1), 1);
      pen.right("modelled", right, top - 12 * u, { weight: 650, color: theme.O, halo: theme.ground });
    }
    pen.box(x - 5 * u, y + h - 5 * u, 10 * u, 10 * u, theme.ink, 5);
  }
}

/** A way through tiles: their numbers, row by row, in the order in which they are visited. */
class Way {
  layout({ u }, width, height) {
    const [rows, columns] = this.tiles,
      side = Math.min((width - 30 * u) / columns, (height - 26 * u) / rows);
    this.box = { x: 26 * u, y: 22 * u, w: side * columns, h: side * rows, side };
  }

  of(tile) {
    return [Math.floor(tile / this.tiles[1]), tile % this.tiles[1]];
  }

  place(tile, _, aside = 0) {
    const { x, y, side } = this.box,
      [row, column] = this.of(tile),
      shift = 0.5 + 0.09 * (((5 * aside + 4) % 9) - 4) * (aside > 0); // so that ways do not hide one another
    return [x + (column + shift) * side, y + (row + shift) * side];
  }

  /** Whether a way leaps from one tile to the other. */
  apart(one, other) {
    const [[row, column], [below, beside]] = [this.of(one), this.of(other)];
    return Math.abs(row - below) + Math.abs(column - beside) > 1;
  }

  /** The tile below a pointer, or −1. */
  at({ offsetX, offsetY }) {
    const { x, y, side } = this.box,
      [rows, columns] = this.tiles,
      [row, column] = [Math.floor((offsetY - y) / side), Math.floor((offsetX - x) / side)];
    return row >= 0 && row < rows && column >= 0 && column < columns ? row * columns + column : -1;
  }

  /** Who begins on a tile of the way draws another one; elsewhere the way leaps there. */
  begin(drawn, event) {
    return drawn.includes(this.at(event)) ? [] : drawn;
  }

  to(drawn, event) {
    const tile = this.at(event);
    return tile < 0 || drawn.includes(tile) ? drawn : [...drawn, tile];
  }

  ground(pen) {
    const { u, theme } = pen,
      { x, y, w, h, side } = this.box,
      style = { size: 13, weight: 700 };
    for (let tile = 0; tile < this.tiles[0] * this.tiles[1]; tile++) {
      const [left, top] = this.place(tile).map((middle) => middle - side / 2 + 1.5 * u),
        size = side - 3 * u;
      if (!this.truth.length || this.truth.includes(tile)) pen.box(left, top, size, size, theme.cell, 3);
      else pen.hatch(left, top, size, size, theme.hatch, 7 * u);
    }
    pen.centered("keys", x + w / 2, 14 * u, { ...style, color: theme.K });
    pen.text("Q", 6 * u, y + h / 2, { ...style, color: theme.Q });
  }

  /** The order of the tiles, in numbers: the truth's, or one's own. */
  labels(pen, drawn, truth) {
    const { u, theme } = pen,
      [ways, color] = truth.length ? [truth, theme.O] : [drawn, theme.Q],
      number = { size: 17, weight: 700, mono: true, color, halo: theme.ground };
    ways.forEach((tile, n) => {
      const [x, y] = this.place(tile);
      pen.centered(`${n + 1}`, x, y + 6 * u, number);
    });
  }
}

class Sketch extends View {
  constructor(parent) {
    const root = parent.querySelector(".sketch"),
      canvas = root.querySelector("canvas");
    super(root, canvas, 0);
    Object.assign(this, { stage: new Stage(root, canvas), moment: 0 });
    canvas.onpointerdown = (event) => this.begin(event);
    canvas.onpointermove = (event) => this.drawing && this.draw(this.plot.to(this.drawn, event));
    canvas.onpointerup = canvas.onpointercancel = () => this.end();
    addEventListener("message", ({ source, data }) => {
      // a room's phone remembers it
      if (source === parent.ownerDocument.defaultView.parent && data.curve) this.draw(data.curve);
    });
  }

  get drawn() {
    return mine[this.data.about] ?? [];
  }

  update(data) {
    const comes = data.truth.length && !this.data?.truth.length;
    this.plot = Object.assign(new (data.tiles ? Way : Curve)(), data);
    this.data = data;
    this.dress(data.palettes);
    this.fit();
    this.root.querySelector(".about").textContent = data.says;
    this.stage.canvas.setAttribute("aria-label", `${data.about} ${data.says}`);
    if (comes && !this.clock.calm.matches) this.clock.start();
  }

  begin(event) {
    if (this.data.truth.length) return;
    this.stage.canvas.setPointerCapture(event.pointerId);
    this.drawing = true;
    this.draw(this.plot.to(this.plot.begin(this.drawn, event), event));
  }

  end() {
    if (!this.drawing) return;
    this.drawing = false;
    this.send();
  }

  draw(drawn) {
    mine[this.data.about] = drawn;
    this.fit();
  }

  /** A phone's page hears what was drawn in its frame. */
  send() {
    if (window.parent !== window && this.drawn.length > 1)
      window.parent.postMessage({ curve: this.drawn }, "*");
  }

  advance(seconds) {
    this.moment += seconds;
    this.fit();
    if (this.moment >= GROWS) this.clock.stop();
  }

  /** Draws this moment in the room that there is. */
  fit() {
    const { data, root, stage, theme } = this,
      { width, height } = stage.canvas.getBoundingClientRect();
    if (!width || !height || !data) return;
    const u = Math.max(clamp(width / 700, 1.25, 1.6), roomUnit(root));
    stage.resize(width, height, window.devicePixelRatio || 1, u);
    stage.place([], data, theme);
    const { pen } = stage,
      { cloud, truth } = data,
      grown = (this.clock.playing ? this.moment / GROWS : 1) * (truth.length - 1),
      pale = veil(theme.Q, Math.max(0.07, 0.8 / Math.sqrt(cloud.length)));
    this.plot.layout(pen, width, height);
    this.plot.ground(pen);
    cloud.forEach((each, n) => this.line(pen, each, pale, 2, n + 1));
    this.line(pen, this.drawn, theme.Q, 3.5);
    this.line(pen, truth, theme.O, 5, 0, grown);
    this.plot.labels(pen, this.drawn, truth.slice(0, Math.floor(grown) + 1));
  }

  /** As far as a place between two of its points; `aside` tells lines apart that would lie on one another. */
  line({ ctx, u }, values, color, thick, aside = 0, far = values.length - 1) {
    const { plot } = this,
      places = values.map((value, n) => plot.place(value, n / Math.max(1, values.length - 1), aside));
    Object.assign(ctx, { strokeStyle: color, lineWidth: thick * u, lineJoin: "round", lineCap: "round" });
    ctx.beginPath();
    places.slice(0, Math.ceil(far) + 1).forEach(([x, y], n) => {
      const before = places[n - 1] ?? [x, y],
        leaps = !n || plot.apart(values[n - 1], values[n]),
        part = clamp(far - n + 1, 0, 1),
        to = [between(before[0], x, part), between(before[1], y, part)];
      if (leaps) ctx.moveTo(x, y);
      ctx.lineTo(...(leaps ? [x, y] : to));
    });
    ctx.stroke();
  }
}

export default showing(Sketch);
