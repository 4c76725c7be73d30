// The GPUs in a ring, and the blocks of K and V on their way between them.

import { mix, veil } from "../canvas/theme.js";
import { NOBODY } from "./run.js";

const CALLED = 24; // GPUs up to which each has its number
const MOST = 400; // blocks on their way at once that are drawn

export class CirclePanel {
  layout(box) {
    const { model, u } = this,
      top = 26 * u;
    this.radius = Math.max(30, Math.min(box.w, box.h - top) / 2 - 46 * u);
    this.x = box.x + box.w / 2;
    this.y = box.y + top + (box.h - top) / 2;
    this.dot = Math.min(21 * u, (this.radius * 2.2) / Math.max(4, model.gpus));
  }

  /** Where a GPU stands, the first on top; or so many pixels further out. */
  of(gpu, out = 0) {
    const angle = (gpu / this.model.gpus) * 2 * Math.PI - Math.PI / 2,
      radius = this.radius + out;
    return [this.x + radius * Math.cos(angle), this.y + radius * Math.sin(angle)];
  }

  /** A point of the way from one GPU to another, bent towards the middle. */
  way(from, to, part) {
    const [a, b] = [this.of(from), this.of(to)],
      bend = [0, 1].map((n) => (a[n] + b[n]) / 2 + ([this.x, this.y][n] - (a[n] + b[n]) / 2) * 0.35);
    return [0, 1].map((n) => (1 - part) ** 2 * a[n] + 2 * part * (1 - part) * bend[n] + part ** 2 * b[n]);
  }

  paint(pen, box, { time, shown }) {
    const { gpus, owners, runs } = this.model,
      run = runs[shown],
      { u, theme, ctx } = pen,
      colors = owners[theme.name],
      now = run.now(time);
    pen.text(run.name, box.x, box.y + 14 * u, { size: 13, weight: 650, room: box.w });
    Object.assign(ctx, { strokeStyle: theme.line, lineWidth: 1 });
    ctx.beginPath();
    ctx.arc(this.x, this.y, this.radius, 0, 2 * Math.PI);
    ctx.stroke();
    for (const n of now) if (run.moves(n)) this.travel(pen, run, n, run.progress(n, time), colors);
    for (const n of run.waiting(time))
      this.block(pen, this.of(run.gpu[n], this.dot * 1.75), colors[run.owner[n]], false); // arrived and not in use yet
    for (let gpu = 0; gpu < gpus; gpu++) {
      const n = now.find((one) => run.gpu[one] === gpu && !run.moves(one));
      this.gpu(pen, gpu, colors[gpu], n === undefined ? null : run.colour(n, theme, colors));
    }
  }

  /** A block on its way: of one owner as K and V, of all others as dots. */
  travel(pen, run, n, part, colors) {
    const to = run.gpu[n],
      { gpus } = this.model,
      all = run.owner[n] === NOBODY,
      sources = all ? [...Array(gpus).keys()].filter((gpu) => gpu !== to) : [run.sourceOf(n)],
      steps = Array.from({ length: 13 }, (_, step) => step / 12);
    for (const from of sources.slice(0, Math.ceil(MOST / gpus))) {
      const points = steps.flatMap((step) => this.way(from, to, step)),
        width = run.kind[n] === run.network ? 2 * pen.u : pen.u;
      pen.line(points, veil(colors[from], all ? 0.18 : 0.45), width);
      this.block(pen, this.way(from, to, part), all ? colors[from] : colors[run.owner[n]], all);
    }
  }

  block(pen, [x, y], color, small) {
    const { u, theme } = pen,
      side = small ? 5 * u : Math.max(4 * u, Math.min(15 * u, this.dot * 0.75)),
      style = { size: 11.5, weight: 650, color: theme.ground };
    if (side < 9 * u) return pen.box(x - side / 2, y - side / 2, side, side, color, 1);
    for (const [left, name] of [
      [x - side, "K"],
      [x, "V"],
    ]) {
      pen.box(left, y - side / 2, side - 1, side, color, 2);
      pen.box(left, y + side / 2 - 2.5 * u, side - 1, 2.5 * u, theme[name], 1);
      pen.centered(name, left + side / 2, y + 3 * u, style);
    }
  }

  /** A GPU: its own colour outside, inside that of the keys with which it computes; empty where it is idle. */
  gpu(pen, gpu, own, inside) {
    const { ctx, u, theme } = pen,
      [x, y] = this.of(gpu),
      size = Math.max(9, Math.min(13, (this.dot / u) * 0.75));
    pen.dot(x, y, this.dot, inside ? mix(inside, theme.ground, 0.8) : theme.ground);
    ctx.lineWidth = Math.max(1.5, 3 * u * Math.min(1, this.dot / (14 * u)));
    ctx.strokeStyle = own;
    ctx.stroke();
    if (this.model.gpus > CALLED) return;
    pen.centered(gpu, x, y + 0.35 * size * u, {
      ...{ size, weight: 650, color: inside ? theme.ground : theme.muted },
    });
  }
}
