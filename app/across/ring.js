// The GPUs in a ring, and the blocks of K and V on their way between them.

import { mix, veil } from "../canvas/theme.js";
import { NOBODY } from "./run.js";

const CALLED = 24; // GPUs up to which each has its number

export class CirclePanel {
  follows = ["time", "shown"];

  layout(box) {
    const { model, u } = this,
      top = 26 * u;
    this.radius = Math.max(30, Math.min(box.w, box.h - top) / 2 - 46 * u);
    this.x = box.x + box.w / 2;
    this.y = box.y + top + (box.h - top) / 2;
    this.dot = Math.min(21 * u, (this.radius * 2.2) / Math.max(4, model.gpus));
  }

  /** Where a GPU stands, the first on top. */
  of(gpu) {
    const angle = (gpu / this.model.gpus) * 2 * Math.PI - Math.PI / 2;
    return [this.x + this.radius * Math.cos(angle), this.y + this.radius * Math.sin(angle)];
  }

  /** Where a block lies that has arrived and is not in use yet: outside its GPU. */
  beside(gpu) {
    const [x, y] = this.of(gpu),
      out = 1 + (this.dot * 1.75) / this.radius;
    return [this.x + (x - this.x) * out, this.y + (y - this.y) * out];
  }

  /** A point of the way from one GPU to another, bent towards the middle. */
  way(from, to, part) {
    const [a, b] = [this.of(from), this.of(to)],
      bend = [0, 1].map((n) => (a[n] + b[n]) / 2 + ([this.x, this.y][n] - (a[n] + b[n]) / 2) * 0.35);
    return [0, 1].map((n) => (1 - part) ** 2 * a[n] + 2 * part * (1 - part) * bend[n] + part ** 2 * b[n]);
  }

  paint(pen, box, { time, shown }) {
    const run = this.model.runs[shown],
      { u, theme, ctx } = pen,
      colors = this.model.owners[theme.name];
    pen.text(run.name, box.x, box.y + 14 * u, { size: 13, weight: 650, room: box.w });
    ctx.strokeStyle = theme.line;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.arc(this.x, this.y, this.radius, 0, 2 * Math.PI);
    ctx.stroke();
    const now = run.now(time),
      work = new Map(now.filter((n) => !run.moves(n)).map((n) => [run.gpu[n], n]));
    for (const n of now) if (run.moves(n)) this.travel(pen, run, n, run.progress(n, time), colors);
    for (const n of run.waiting(time)) this.block(pen, this.beside(run.gpu[n]), colors[run.owner[n]], false);
    for (let gpu = 0; gpu < this.model.gpus; gpu++) this.gpu(pen, run, gpu, work.get(gpu) ?? -1, colors);
  }

  /** A block on its way: of one owner as K and V, of all others as dots. */
  travel(pen, run, n, part, colors) {
    const { ctx } = pen,
      to = run.gpu[n],
      all = run.owner[n] === NOBODY;
    const sources = all
      ? Array.from({ length: this.model.gpus }, (_, gpu) => gpu).filter((gpu) => gpu !== to)
      : [run.sourceOf(n)];
    if (sources.length * this.model.gpus > 400) sources.length = Math.ceil(400 / this.model.gpus);
    for (const from of sources) {
      ctx.strokeStyle = veil(colors[from], all ? 0.18 : 0.45);
      ctx.lineWidth = run.kind[n] === run.network ? 2 * pen.u : 1 * pen.u;
      ctx.beginPath();
      ctx.moveTo(...this.of(from));
      for (let step = 1; step <= 12; step++) ctx.lineTo(...this.way(from, to, step / 12));
      ctx.stroke();
      this.block(pen, this.way(from, to, part), all ? colors[from] : colors[run.owner[n]], all);
    }
  }

  block(pen, [x, y], color, small) {
    const { u, theme } = pen,
      side = small ? 5 * u : Math.max(4 * u, Math.min(15 * u, this.dot * 0.75));
    if (side < 9 * u) return pen.box(x - side / 2, y - side / 2, side, side, color, 1);
    for (const [place, name, tensor] of [
      [-side, "K", theme.K],
      [0, "V", theme.V],
    ]) {
      pen.box(x + place, y - side / 2, side - 1, side, color, 2);
      pen.box(x + place, y + side / 2 - 2.5 * u, side - 1, 2.5 * u, tensor, 1);
      pen.centered(name, x + place + side / 2, y + 3 * u, { size: 11.5, weight: 650, color: theme.ground });
    }
  }

  /** A GPU: its own colour outside, inside that of the keys with which it computes; empty where it is idle. */
  gpu(pen, run, gpu, n, colors) {
    const { ctx, u, theme } = pen,
      [x, y] = this.of(gpu),
      idle = n < 0;
    ctx.beginPath();
    ctx.arc(x, y, this.dot, 0, 2 * Math.PI);
    ctx.fillStyle = idle ? theme.ground : mix(this.inside(run, n, colors, theme), theme.ground, 0.8);
    ctx.fill();
    ctx.lineWidth = Math.max(1.5, 3 * u * Math.min(1, this.dot / (14 * u)));
    ctx.strokeStyle = colors[gpu];
    ctx.stroke();
    if (this.model.gpus > CALLED) return;
    const size = Math.max(9, Math.min(13, (this.dot / u) * 0.75)),
      color = idle ? theme.muted : theme.ground;
    pen.centered(gpu, x, y + 0.35 * size * u, { size, weight: 650, color });
  }

  inside(run, n, colors, theme) {
    if (run.kind[n] === run.merging) return theme.O;
    if (run.kind[n] === run.packing) return theme.Q;
    return run.owner[n] === NOBODY ? theme.S : colors[run.owner[n]];
  }
}
