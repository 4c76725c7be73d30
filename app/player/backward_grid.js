// The score matrix in a backward pass: gradients beside their tensors.

import { plural } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { GridLayout } from "./grid_layout.js";
import { GridPainter } from "./grid_painter.js";
import { GridPanel } from "./grid_panel.js";
import { NONE } from "./run.js";

const STRIPES = 5; // units between the stripes that tell a gradient from its tensor

class BackwardPainter extends GridPainter {
  constructor(model, run, layout, theme, u) {
    super(model, run, layout, theme, u);
    const { first, stop } = model.arrays,
      queries = [...first.keys()];
    this.seers = Array.from({ length: model.keyBlocks }, (_, j) =>
      queries.filter((i) => first[i] <= j && j < stop[i]),
    );
  }

  operands(pen, moment, step) {
    super.operands(pen, moment, step);
    const { y, gap, dO, out } = this.layout;
    for (let n = 0; n < this.model.queryBlocks; n++) {
      const h = y[n + 1] - y[n] - gap,
        lit = n === moment.i;
      this.fill(pen, dO.x, y[n], dO.w, h, this.tone("dO", lit, step), 2);
      pen.box(out.x, y[n], out.w, h, this.tone("O", lit, step), 2);
    }
  }

  /** Empty, accumulated so far, written: delta by kernel 1, dK and dV by kernel 2, dQ by kernel 3. */
  output(pen, { phase, i, j, outer, ended }, step) {
    const { model, run, layout, theme } = this,
      { x, y, gap, o, delta, dK, dV } = layout,
      { first, stop } = model.arrays;
    const written = (kernel, n) =>
      step >= run.steps ||
      phase > kernel ||
      (phase === kernel && step >= 0 && (n < outer || (n === outer && ended)));
    const part = (kernel, n, at, done, all) =>
      phase === kernel && n === outer && at !== NONE ? done() / Math.max(1, all) : 0;
    for (let n = 0; n < model.queryBlocks; n++) {
      const h = y[n + 1] - y[n] - gap,
        sum = part(2, n, j, () => j - first[n] + 1, stop[n] - first[n]);
      pen.box(delta.x, y[n], delta.w, h, written(0, n) ? theme.delta : theme.cell, 2);
      this.gathered(pen, [o.x, y[n], o.w, h], theme.dQ, sum, written(2, n));
    }
    for (let n = 0; n < model.keyBlocks; n++) {
      const w = x[n + 1] - x[n] - gap,
        seers = this.seers[n],
        sum = part(1, n, i, () => seers.indexOf(i) + 1, seers.length);
      this.gathered(pen, [x[n], dK.y, w, dK.h], theme.dK, sum, written(1, n));
      this.gathered(pen, [x[n], dV.y, w, dV.h], theme.dV, sum, written(1, n));
    }
  }

  /** A box in a tensor's colour, striped: the tensor's gradient. */
  fill(pen, x, y, w, h, color, radius = 2.5) {
    pen.box(x, y, w, h, color, radius);
    pen.hatch(x, y, w, h, mix(pen.theme.ground, color, 0.55), STRIPES * pen.u);
  }
}

export class BackwardGridPanel extends GridPanel {
  layout(box) {
    const { model, u, dpr } = this,
      grid = new GridLayout(model, { ...box, h: box.h - 80 * u }, { left: 58 * u, right: 78 * u }, u, dpr),
      bottom = grid.y0 + grid.h;
    grid.dO = { x: grid.x0 - 28 * u, w: 9 * u };
    grid.mark = grid.dO.x;
    grid.delta = { x: grid.right + 8 * u, w: 9 * u };
    grid.out = { x: grid.delta.x + 13 * u, w: 9 * u };
    grid.right = grid.out.x + grid.out.w;
    grid.dK = { y: bottom + 5 * u, h: 12 * u };
    grid.dV = { y: grid.dK.y + 16 * u, h: 12 * u };
    grid.below = grid.dV.y + grid.dV.h - bottom;
    this.place(grid, model, model.run, BackwardPainter);
  }

  /** What stands around the grid: gradients have their tensor's colour, and stripes. */
  titles(pen, box, model) {
    const { grid, u, theme } = this,
      left = (name, x, y, color) => pen.right(name, x, y, { size: 13, weight: 700, color });
    this.keyTitle(pen, box, plural(model.keyBlocks, "key tile"), 95);
    pen.above("dQ", grid.o, grid.y0, theme.Q);
    pen.above("δ", grid.delta, grid.y0, theme.delta);
    pen.above("O", grid.out, grid.y0, theme.O);
    left("dO", grid.dO.x + grid.dO.w, grid.y0 - 8 * u, theme.O);
    left("dK", grid.x0 - 6 * u, grid.dK.y + grid.dK.h - 1.5 * u, theme.K);
    left("dV", grid.x0 - 6 * u, grid.dV.y + grid.dV.h - 1.5 * u, theme.V);
  }
}
