// A backward pass: gradients beside their tensors, bytes against other ways, and one row of P and dS.

import { decimal, percent, plural } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { GridLayout } from "./grid_layout.js";
import { GridPainter } from "./grid_painter.js";
import { GridPanel } from "./grid_panel.js";
import { rowHeading } from "./row_panel.js";
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

const LSE = { name: "lse", sign: "lse", words: ["from the forward pass,", "4 bytes per row"] };
const DELTA = { name: "delta", sign: "δ", words: ["rowsum(dO ∘ O),", "from kernel 1"] };
const SUMS = [
  { name: "weight", sign: "P", words: ["per key tile; a row sums to 1", "sum: 1"], show: percent },
  {
    ...{ name: "score_gradient", sign: "dS", words: ["per key tile; a row sums to 0", "sum: 0"] },
    show: (x) => decimal(x, 3),
  },
];

/** One row of P and dS: what it knows before the tiles, and what each key tile holds of it. */
export class BackwardRowPanel {
  paint(pen, box, view) {
    const { model, run, step, row } = view,
      { u } = pen,
      gap = 26 * u,
      known = this.known(model, run, step, row),
      small = Math.max(0.15 * box.w, 150 * u),
      wide = (box.w - 2 * small - 3 * gap) / 2;
    rowHeading(pen, box, "backward", view);
    let { x } = box;
    const [lse, delta, ...sums] = [small, small, wide, wide].map((w) => {
      const at = { x, y: box.y + 36 * u, w, h: box.h - 36 * u };
      x += w + gap;
      return at;
    });
    this.number(pen, lse, { ...LSE, value: model.arrays.lse[row] });
    this.number(pen, delta, { ...DELTA, value: known.delta ? model.arrays.delta[row] : NaN });
    SUMS.forEach((sum, n) => this.bars(pen, sums[n], model, row, known, sum));
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

  number(pen, box, { sign, name, words, value }) {
    const { u, theme } = pen,
      y = box.y + 21 * u;
    pen.text(sign, box.x, y, { size: 17, weight: 700, color: theme[name] });
    pen.value(decimal(value), box.x + box.w, y);
    words.forEach((line, n) => pen.note(line, box.x, y + (26 + 18 * n) * u, { room: box.w }));
  }

  /** A bar for every key tile, with words for much room and for little, its scale that of the whole row: pale before it is computed, the one at work framed. */
  bars(pen, box, model, row, known, { name, sign, words, show }) {
    const { u, theme } = pen,
      { now } = known,
      y = box.y + 21 * u,
      count = model.keyBlocks,
      values = Array.from(model.arrays[name].subarray(row * count, (row + 1) * count)),
      width = pen.text(sign, box.x, y, { size: 17, weight: 700, color: theme.S }),
      said = words[box.w < 250 * u ? 1 : 0];
    pen.note(said, box.x + width + 10 * u, y - u, { size: 13, room: box.w - width - 110 * u });
    pen.value(now >= 0 && known[name](now) ? show(values[now]) : "–", box.x + box.w, y);
    const plot = { x: box.x, y: y + 12 * u, w: box.w, h: box.h - 58 * u },
      pitch = plot.w / count,
      [low, high] = [Math.min(0, ...values), Math.max(0, ...values)],
      scale = (plot.h - 16 * u) / (high - low || 1),
      zero = plot.y + 8 * u + high * scale,
      pale = mix(theme.S, theme.ground, 0.62);
    pen.box(plot.x, plot.y, plot.w, plot.h, theme.panel, 5);
    values.forEach((value, n) => {
      if (value === 0) return;
      const w = Math.max(1, pitch - (pitch > 4 ? 2 : 0)),
        h = Math.max(1, Math.abs(value) * scale),
        [x, top] = [plot.x + n * pitch, value > 0 ? zero - h : zero];
      pen.box(x, top, w, h, !known[name](n) ? theme.cell : n === now ? theme.S : pale, 1.5);
      if (n === now) pen.frame(x - 1, top - 1, w + 2, h + 2, theme.edge, 1.4 * u, 1.5);
    });
    pen.rule(plot.x, zero, plot.w);
    const foot = plot.y + plot.h + 15 * u,
      style = { size: 11.5, color: theme.muted };
    pen.text("key tile 0", box.x, foot, style);
    pen.right(String(count - 1), box.x + box.w, foot, style);
  }
}
