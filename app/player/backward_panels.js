// A backward pass: gradients beside their tensors, bytes against other ways, and one row of P and dS.

import { cut } from "../canvas/cut.js";
import { decimal, percent, plural } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { GridLayout } from "./grid_layout.js";
import { GridPainter } from "./grid_painter.js";
import { GridPanel } from "./grid_panel.js";
import { numberOf, rowHeading } from "./row_panel.js";
import { NONE } from "./run.js";
import { TrafficPanel } from "./traffic_panel.js";

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

/** The pass under way above what others would move: closed forms, so they do not move. */
export class BackwardTrafficPanel extends TrafficPanel {
  rows({ model, run, step }) {
    const { title, ...totals } = model.against;
    return [
      ["as played", run, step],
      [`${title}, P stored: must move`, totals],
    ];
  }
}

const NUMBERS = [
  ["lse", "lse", ["from the forward pass,", "4 bytes per row"]],
  ["delta", "δ", ["rowsum(dO ∘ O),", "from kernel 1"]],
];
const SUMS = [
  ["weight", "P", "per key tile; a row sums to 1", percent],
  ["score_gradient", "dS", "per key tile; a row sums to 0", (x) => decimal(x, 3)],
];

/** One row of P and dS: what it knows before the tiles, and what each key tile holds of it. */
export class BackwardRowPanel {
  paint(pen, box, view) {
    const { model, run, step, row } = view,
      { u } = pen,
      gap = 26 * u,
      known = this.known(model, run, step, row),
      small = Math.max(0.15 * box.w, 150 * u);
    rowHeading(pen, box, "backward", view);
    const boxes = cut({ ...box, y: box.y + 24 * u, h: box.h - 32 * u }, "x", gap, [small, small, null, null]),
      values = [model.arrays.lse[row], known.delta ? model.arrays.delta[row] : NaN];
    NUMBERS.forEach(([name, sign, words], n) => {
      const { x, y, w } = boxes[n];
      pen.text(sign, x, y + 26 * u, { size: 20, weight: 700, mono: true, color: pen.theme[name] });
      pen.value(decimal(values[n]), x + w, y + 26 * u);
      words.forEach((line, m) => pen.note(line, x, y + (52 + 18 * m) * u, { room: w }));
    });
    SUMS.forEach((sum, n) => this.bars(pen, boxes[n + 2], model, row, known, sum));
  }

  /** Whether delta is known, which tile is at work on the row (-1: none) and how many tiles hold its P and dS. */
  known(model, run, step, row) {
    const block = model.blockOf(row),
      { first, stop } = model.arrays,
      nothing = () => false;
    if (step < 0) return { delta: false, now: -1, weight: nothing, score_gradient: nothing };
    const [phase, i, j] = run.has(step) ? [run.phase[step], run.query[step], run.key[step]] : [3, NONE, NONE],
      delta = phase > 0 || i > block || (i === block && run.operation(step) !== "load"),
      now = phase > 0 && i === block && j !== NONE ? j : -1,
      over = i === NONE ? run.has(step) && run.operation(step) === "store" : i > block, // with the key tile at work
      passed = (n) => phase === 1 && (n < j || (n === j && over)),
      reached = (operation) => (n) =>
        n >= first[block] &&
        n < stop[block] &&
        (phase > 1 || passed(n) || (n === now && run.reached(step, operation)));
    return { delta, now, weight: reached("weights"), score_gradient: reached("score_gradient") };
  }

  /** A bar for every key tile, its scale that of the whole row: pale before it is computed, the one at work framed. */
  bars(pen, box, model, row, known, [name, sign, said, show]) {
    const { u, theme } = pen,
      { now } = known,
      count = model.keyBlocks,
      values = Array.from(model.arrays[name].subarray(row * count, (row + 1) * count)),
      value = now >= 0 && known[name](now) ? show(values[now]) : "–",
      plot = numberOf(pen, box, { sign, color: theme.S, said, value }, [0, count - 1]);
    if (!plot) return;
    const pitch = plot.w / count,
      [low, high] = [Math.min(0, ...values), Math.max(0, ...values)],
      scale = (plot.h - 16 * u) / (high - low || 1),
      zero = plot.y + 8 * u + high * scale,
      pale = mix(theme.S, theme.ground, 0.62);
    values.forEach((value, n) => {
      if (value === 0) return;
      const w = Math.max(1, pitch - (pitch > 4 ? 2 : 0)),
        h = Math.max(1, Math.abs(value) * scale),
        [x, top] = [plot.x + n * pitch, value > 0 ? zero - h : zero];
      pen.box(x, top, w, h, !known[name](n) ? theme.cell : n === now ? theme.S : pale, 1.5);
      if (n === now) pen.frame(x - 1, top - 1, w + 2, h + 2, theme.edge, 1.4 * u, 1.5);
    });
    pen.rule(plot.x, zero, plot.w);
  }
}
