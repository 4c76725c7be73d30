// The score matrix by chunks: each in the colour of the GPU that computes it, stronger once it is done.

import { Pen, sheet } from "../canvas/pen.js";
import { mix } from "../canvas/theme.js";

const WAITING = 0.16,
  DONE = 0.86; // of a GPU's colour
const AXES = 116; // units of width: what is said of both directions

export class GridPanel {
  layout(box) {
    const { model, theme, u } = this,
      run = model.runs[this.number],
      side = Math.max(40, Math.min(box.w - 26 * u, box.h - 44 * u));
    this.run = run;
    this.map = { x: box.x + 26 * u, y: box.y + 40 * u, side, each: side / run.chunks };
    this.gap = this.map.each > 7 ? 1 : 0;
    this.done = model.owners[theme.name].map((color) => mix(color, theme.ground, DONE));
    this.base = this.drawBase(u);
  }

  /** All tiles before any is computed, drawn once. */
  drawBase(u) {
    const { map, run, model, theme, dpr } = this,
      { chunks, owners } = run,
      ctx = sheet({ x: 0, y: 0, w: map.side, h: map.side }, dpr),
      pen = new Pen(ctx, theme, u),
      waiting = model.owners[theme.name].map((color) => mix(color, theme.ground, WAITING)),
      w = map.each - this.gap;
    for (let q = 0; q < chunks; q++)
      for (let k = 0; k < chunks; k++)
        if (!model.causal || k <= q) pen.box(k * map.each, q * map.each, w, w, waiting[owners[q]], 1);
        else pen.hatch(k * map.each, q * map.each, w, w, theme.hatch, 5);
    return ctx.canvas;
  }

  paint(pen, box, { time }) {
    const { map, run, model, gap } = this,
      { u, theme, ctx } = pen,
      { chunks, owners } = run,
      colors = model.owners[theme.name],
      several = model.runs.length > 1,
      numbered = map.each > 12 * u,
      title = pen.text(several ? run.name : "S, by GPU", box.x, box.y + 14 * u, {
        ...{ size: 13, weight: 650, room: box.w },
      }),
      style = { size: 11.5, color: theme.muted, mono: true };
    for (let chunk = 0; chunk < chunks; chunk++) {
      const owner = owners[chunk],
        at = chunk * map.each,
        middle = at + map.each / 2;
      pen.box(map.x + at, map.y - 9 * u, map.each - gap, 6 * u, colors[owner], 1);
      pen.box(map.x - 9 * u, map.y + at, 6 * u, map.each - gap, colors[owner], 1);
      if (!numbered) continue;
      pen.centered(owner, map.x + middle, map.y - 13 * u, style);
      pen.centered(owner, map.x - 17 * u, map.y + middle + 4 * u, style);
    }
    ctx.drawImage(this.base, map.x, map.y, map.side, map.side);
    this.tiles(pen, time);
    if (map.x + map.side - box.x - title < AXES * u) return;
    const y = map.y - (numbered ? 26 : 14) * u;
    pen.note("queries ↓  keys →", map.x + map.side, y, { size: 11.5, align: "right" });
  }

  /** What is computed so far, tile by tile, of each call in their order. */
  tiles(pen, time) {
    const { map, run } = this,
      w = map.each - this.gap;
    for (let n = 0; n < run.count; n++) {
      const [from, to] = [run.tileFrom[n], run.tileFrom[n + 1]],
        tiles = run.progress(n, time) * (to - from); // that are done
      for (let at = from; at < to && at - from < tiles; at++) {
        const [q, k] = [run.tileQuery[at], run.tileKey[at]],
          [x, y] = [map.x + k * map.each, map.y + q * map.each],
          part = Math.min(1, tiles - (at - from));
        pen.box(x, y, w, w * part, this.done[run.owners[q]], 1);
        if (this.gap && part < 1) pen.frame(x, y, w, w, pen.theme.edge, 1.2, 1);
      }
    }
  }
}
