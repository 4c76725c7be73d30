// The score matrix in a backward pass: gradients beside their tensors.

import { mix } from "../canvas/theme.js";
import { GridLayout } from "./grid_layout.js";
import { GridPainter } from "./grid_painter.js";
import { GridPanel } from "./grid_panel.js";
import { NONE } from "./run.js";

const GRADIENT_STRIPES = 5; // px between the stripes that tell a gradient from its tensor

/** A box in a tensor's colour, striped: the tensor's gradient. */
function gradientBox(pen, x, y, w, h, color, radius = 2) {
  pen.box(x, y, w, h, color, radius);
  pen.hatch(x, y, w, h, mix(pen.theme.ground, color, 0.55), GRADIENT_STRIPES * pen.u);
}

/** The room that the gradients take around a grid, in units. */
const BACKWARD_MARGINS = { left: 58, right: 78, bottom: 36 };

class BackwardLayout extends GridLayout {
  constructor(model, box, u, dpr) {
    const { left, right, bottom } = BACKWARD_MARGINS;
    super(model, { ...box, h: box.h - bottom * u }, { left: left * u, right: right * u }, u, dpr);
    this.dO = { x: this.x0 - 28 * u, w: 9 * u };
    this.mark = this.dO.x;
    this.delta = { x: this.o.x + this.o.w + 8 * u, w: 9 * u };
    this.out = { x: this.delta.x + 13 * u, w: 9 * u };
    this.right = this.out.x + this.out.w;
    this.dK = { y: this.y0 + this.h + 5 * u, h: 12 * u };
    this.dV = { y: this.dK.y + this.dK.h + 4 * u, h: 12 * u };
    this.below = this.dV.y + this.dV.h - this.y0 - this.h;
  }
}

class BackwardPainter extends GridPainter {
  constructor(model, run, layout, theme, u) {
    super(model, run, layout, theme, u);
    const { first, stop } = model.arrays;
    const queries = [...first.keys()];
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
      gradientBox(pen, dO.x, y[n], dO.w, h, this.tone("dO", lit, step));
      pen.box(out.x, y[n], out.w, h, this.tone("O", lit, step), 2);
    }
  }

  /** Empty, accumulated so far, written: delta by kernel 1, dK and dV by kernel 2, dQ by kernel 3. */
  output(pen, { phase, i, j, outer, ended }, step) {
    const { model, run, layout, theme } = this,
      { x, y, gap, o, delta, dK, dV } = layout,
      { first, stop } = model.arrays;
    const over = step >= run.steps,
      written = (kernel, n) =>
        over || phase > kernel || (phase === kernel && step >= 0 && (n < outer || (n === outer && ended)));
    for (let n = 0; n < model.queryBlocks; n++) {
      const h = y[n + 1] - y[n] - gap;
      pen.box(delta.x, y[n], delta.w, h, written(0, n) ? theme.delta : theme.cell, 2);
      const part =
        phase === 2 && n === outer && j !== NONE ? (j - first[n] + 1) / Math.max(1, stop[n] - first[n]) : 0;
      this.gathered(pen, [o.x, y[n], o.w, h], "dQ", part, written(2, n));
    }
    for (let n = 0; n < model.keyBlocks; n++) {
      const w = x[n + 1] - x[n] - gap,
        seers = this.seers[n];
      const part =
        phase === 1 && n === outer && i !== NONE ? (seers.indexOf(i) + 1) / Math.max(1, seers.length) : 0;
      this.gathered(pen, [x[n], dK.y, w, dK.h], "dK", part, written(1, n));
      this.gathered(pen, [x[n], dV.y, w, dV.h], "dV", part, written(1, n));
    }
  }

  fill(pen, x, y, w, h, color) {
    gradientBox(pen, x, y, w, h, color, 2.5);
  }
}

export class BackwardGridPanel extends GridPanel {
  layout(box) {
    const { model, u, dpr, theme } = this;
    this.grid = new BackwardLayout(model, { ...box, h: box.h - 44 * u }, u, dpr);
    this.painter = new BackwardPainter(model, model.run, this.grid, theme, u);
  }

  /** What stands around the grid: gradients have their tensor's colour, and stripes. */
  titles(pen, box, model) {
    const { grid } = this,
      { u, theme } = pen,
      left = (name, x, y, color) => pen.right(name, x, y, { size: 13, weight: 700, color });
    this.keyTitle(pen, box, model);
    pen.above("dQ", grid.o, grid.y0, theme.Q);
    pen.above("δ", grid.delta, grid.y0, theme.delta);
    pen.above("O", grid.out, grid.y0, theme.O);
    left("dO", grid.dO.x + grid.dO.w, grid.y0 - 8 * u, theme.O);
    left("dK", grid.x0 - 6 * u, grid.dK.y + grid.dK.h - 1.5 * u, theme.K);
    left("dV", grid.x0 - 6 * u, grid.dV.y + grid.dV.h - 1.5 * u, theme.V);
  }
}
