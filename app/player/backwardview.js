// The backward pass on the canvas: gradients beside their tensors, what the chip holds, and one row of P and dS.

const GRADIENT_STRIPES = 5; // px between the stripes that tell a gradient from its tensor

/** A box in a tensor's colour, striped: the tensor's gradient. */
function gradientBox(pen, x, y, w, h, color, radius = 2) {
  pen.box(x, y, w, h, color, radius);
  if (w <= 0 || h <= 0) return;
  const { ctx, u, theme } = pen;
  ctx.fillStyle = hatching(ctx, mix(theme.ground, color, 0.55), GRADIENT_STRIPES * u, window.devicePixelRatio || 1);
  ctx.fillRect(x, y, w, h);
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
    this.seers = Array.from({ length: model.keyBlocks }, (_, j) => first.reduce((seers, at, i) => (at <= j && j < stop[i] ? [...seers, i] : seers), []));
  }

  operands(pen, { phase, i, j }, step) {
    const { model, run, layout, theme } = this, { x, y, y0, gap, q, dO, out } = layout, u = pen.u;
    const busy = step >= 0 && step < run.steps, pale = (name) => mix(theme[name], theme.ground, theme.name === "dark" ? 0.38 : 0.36);
    const tone = (name, lit) => (lit ? theme[name] : pale(name));
    for (let n = 0; n < model.keyBlocks; n++) {
      const w = x[n + 1] - x[n] - gap;
      pen.box(x[n], y0 - 24 * u, w, 9 * u, tone("K", n === j), 2);
      pen.box(x[n], y0 - 13 * u, w, 9 * u, tone("V", n === j), 2);
    }
    for (let n = 0; n < model.queryBlocks; n++) {
      const h = y[n + 1] - y[n] - gap, lit = busy && n === i;
      pen.box(q.x, y[n], q.w, h, tone("Q", lit && phase > 0), 2);
      gradientBox(pen, dO.x, y[n], dO.w, h, tone("dO", lit));
      pen.box(out.x, y[n], out.w, h, tone("O", lit && phase === 0), 2);
    }
  }

  /** Empty, gathered so far, written: delta by kernel 1, dK and dV by kernel 2, dQ by kernel 3. */
  output(pen, { phase, i, j, outer, ended }, step) {
    const { model, run, layout, theme } = this, { x, y, gap, o, delta, dK, dV } = layout, { first, stop } = model.arrays;
    const over = step >= run.steps, written = (kernel, n) => over || phase > kernel || (phase === kernel && step >= 0 && (n < outer || (n === outer && ended)));
    for (let n = 0; n < model.queryBlocks; n++) {
      const h = y[n + 1] - y[n] - gap;
      pen.box(delta.x, y[n], delta.w, h, written(0, n) ? theme.delta : theme.cell, 2);
      const part = phase === 2 && n === outer && j !== NONE ? (j - first[n] + 1) / Math.max(1, stop[n] - first[n]) : 0;
      this.gathered(pen, o.x, y[n], o.w, h, "dQ", part, written(2, n));
    }
    for (let n = 0; n < model.keyBlocks; n++) {
      const w = x[n + 1] - x[n] - gap, seers = this.seers[n];
      const part = phase === 1 && n === outer && i !== NONE ? (seers.indexOf(i) + 1) / Math.max(1, seers.length) : 0;
      this.gathered(pen, x[n], dK.y, w, dK.h, "dK", part, written(1, n));
      this.gathered(pen, x[n], dV.y, w, dV.h, "dV", part, written(1, n));
    }
  }

  gathered(pen, x, y, w, h, name, part, written) {
    const { theme } = this;
    pen.box(x, y, w, h, theme.cell, 2.5);
    if (written) gradientBox(pen, x, y, w, h, theme[name], 2.5);
    else if (part) gradientBox(pen, x, y, w * part, h, mix(theme[name], theme.ground, 0.55), 2.5);
  }
}

class BackwardGridPanel extends GridPanel {
  layout(view, box) {
    const { model, u, dpr, theme } = view;
    this.grid = new BackwardLayout(model, { ...box, h: box.h - 44 * u }, u, dpr);
    this.painter = new BackwardPainter(model, model.run, this.grid, theme, u);
  }

  /** What stands around the grid: gradients have their tensor's colour, and stripes. */
  titles(pen, box, model) {
    const { grid } = this, { u, theme } = pen, style = { size: 13, weight: 600, align: "center" };
    pen.text(`K and V: ${plural(model.keyBlocks, "key tile")}`, Math.max(grid.x0 + grid.w / 2, box.x + 95 * u), grid.y0 - 31 * u, { ...style, color: theme.K });
    for (const [name, column, color] of [["dQ", grid.o, theme.Q], ["δ", grid.delta, theme.delta], ["O", grid.out, theme.O]]) {
      pen.text(name, column.x + column.w / 2, grid.y0 - 8 * u, { ...style, weight: 700, color });
    }
    pen.text("dO", grid.dO.x + grid.dO.w, grid.y0 - 8 * u, { ...style, weight: 700, align: "right", color: theme.O });
    for (const [name, strip, color] of [["dK", grid.dK, theme.K], ["dV", grid.dV, theme.V]]) {
      pen.text(name, grid.x0 - 6 * u, strip.y + strip.h - 1.5 * u, { ...style, weight: 700, align: "right", color });
    }
  }
}

/** The tiles on the chip at a step of the backward pass: tensor to a few words about what it is doing there. */
function onChipBackward(run, step) {
  const tiles = {}, phase = run.phase[step], visit = run.visit[step], visiting = phase > 0 && visit >= 0;
  for (let s = run.outerStart[run.outerOf[step]]; s <= step; s++) {
    const mine = phase === 0 || run.visit[s] === visit, around = phase > 0 && run.visit[s] < 0;
    if (mine || around) advanceBackward(tiles, run.operation[s], TENSORS[run.tensor[s]], s === step, around && visiting);
  }
  if (phase > 0) for (const name of phase === 1 ? ["dK", "dV"] : ["dQ"]) tiles[name] ??= "sum so far";
  return tiles;
}

function advanceBackward(tiles, operation, tensor, now, stays) {
  const words = {
    [ROW_TERMS]: { delta: "summed" }, [SCORES]: { S: now ? "being computed" : "scores" }, [WEIGHTS]: { S: "becomes P" },
    [VALUE_GRADIENT]: { S: "P, times dO", dV: "Pᵀ dO is added" }, [WEIGHT_GRADIENT]: { dP: now ? "being computed" : "here" },
    [SCORE_GRADIENT]: { S: "P", dP: "becomes dS" }, [KEY_GRADIENT]: { dP: "dS, times Q", dK: "dSᵀ Q is added" },
    [QUERY_GRADIENT]: { dP: "dS, times K", dQ: "dS K is added" },
  };
  if (operation === LOAD) tiles[tensor] = now ? "arriving" : stays ? "stays in place" : "here";
  else if (operation !== STORE) {
    if (operation === VALUE_GRADIENT || operation === KEY_GRADIENT || operation === QUERY_GRADIENT) {
      for (const [name, said] of Object.entries(words[operation])) tiles[name] = now || name === "S" || name === "dP" ? said : "sum so far";
    } else Object.assign(tiles, words[operation]);
  } else if (now) tiles[tensor] = "leaving";
}

/** The pass under way above what two others would ask for: closed forms, so they do not move. */
class BackwardTrafficPanel extends TrafficPanel {
  paint(pen, box, { model, run, step }) {
    const { u, theme } = pen, right = box.x + box.w, pitch = (box.h - 52 * u) / 3;
    const most = Math.max(run.total, ...model.others.map(([, total]) => total));
    this.heading(pen, box, model);
    trafficBar(pen, { x: box.x, y: box.y + 28 * u, w: box.w }, run, step, most, true, "two kernels, as played");
    model.others.forEach(([title, total, claim], n) => {
      const y = box.y + 28 * u + (n + 1) * pitch, top = y + 20 * u, h = 11 * u;
      pen.text(title, box.x, y + 14 * u, { size: 13.5, room: box.w - 90 * u });
      pen.text(traffic(total), right, y + 14 * u, { size: 15, mono: true, align: "right" });
      pen.box(box.x, top, box.w, h, theme.panel, 3);
      pen.box(box.x, top, (box.w * total) / most, h, theme.cell, 3);
      pen.text(`${claim}, closed form`, box.x, top + h + 13 * u, { size: 11.5, color: theme.muted });
    });
    const [, standard] = model.others[1];
    pen.text(compared(run, { total: standard }, "standard"), right, box.y + box.h - 8 * u, { size: 13.5, weight: 700, align: "right" });
    pen.text("whole run", box.x, box.y + box.h - 8 * u, { size: 12.5, color: theme.muted });
  }
}

/** One row of P and dS: what it knows before the tiles, and what each key tile holds of it. */
class BackwardRowPanel {
  signature({ run, step, row, following }) {
    return [row, following, step < 0 ? -1 : step >= run.steps ? "end" : `${run.phase[step]} ${run.key[step]} ${run.query[step]} ${run.operation[step]}`].join();
  }

  paint(pen, box, { model, run, step, row, following, still }) {
    const { u, theme } = pen, y = box.y + 24 * u, gap = 26 * u;
    pen.rule(box.x, box.y, box.w);
    const width = pen.text(`Row ${model.rows[row]}, backward`, box.x, y, { size: 15, weight: 600 });
    const where = following ? "follows the tile at work" : "kept in view, Esc follows again";
    pen.text(`computed · query tile ${model.blockOf(row)} · ${where}${still ? "" : " · ↑ ↓ choose"}`, box.x + width + 12 * u, y, { size: 12.5, color: theme.muted });
    const known = this.known(model, run, step, row), small = 0.15 * box.w, wide = (box.w - 2 * small - 3 * gap) / 2;
    const at = (n) => ({ x: box.x + [0, small + gap, 2 * (small + gap), 2 * (small + gap) + wide + gap][n], y: box.y + 36 * u, w: n < 2 ? small : wide, h: box.h - 36 * u });
    this.number(pen, at(0), "lse", model.arrays.lse[row], ["kept by the forward pass,", "4 bytes a row"], theme.lse);
    this.number(pen, at(1), "δ", known.delta ? model.arrays.delta[row] : NaN, ["rowsum(dO ∘ O),", "from kernel 1"], theme.delta);
    this.bars(pen, at(2), model, row, known, "weight", "P", "in each key tile; a row adds up to 1", percent);
    this.bars(pen, at(3), model, row, known, "score_gradient", "dS", "in each key tile; a row adds up to 0", (x) => decimal(x, 3));
  }

  /** Whether delta is known, which tile is at work on the row (-1: none) and how many tiles hold its P and dS. */
  known(model, run, step, row) {
    const block = model.blockOf(row), { first, stop } = model.arrays;
    if (step < 0) return { delta: false, now: -1, weight: () => false, score_gradient: () => false };
    const over = step >= run.steps, phase = over ? 3 : run.phase[step], i = over ? NONE : run.query[step], j = over ? NONE : run.key[step];
    const delta = phase > 0 || i > block || (i === block && run.operation[step] !== LOAD);
    const now = phase > 0 && i === block && j !== NONE ? j : -1;
    const passed = (n) => phase === 1 && (n < j || (n === j && i !== NONE && i > block) || (n === j && i === NONE && run.operation[step] === STORE));
    const reached = (operation) => (n) => n >= first[block] && n < stop[block] && (phase > 1 || passed(n) || (n === now && run.reached(step, operation)));
    return { delta, now, weight: reached(WEIGHTS), score_gradient: reached(SCORE_GRADIENT) };
  }

  number(pen, box, sign, value, words, color) {
    const { u, theme } = pen, y = box.y + 21 * u;
    pen.text(sign, box.x, y, { size: 17, weight: 700, color });
    pen.text(decimal(value), box.x + box.w, y, { size: 21, weight: 700, mono: true, align: "right" });
    words.forEach((line, n) => pen.text(line, box.x, y + (26 + 18 * n) * u, { size: 12.5, color: theme.muted, room: box.w }));
  }

  /** A bar for every key tile, its scale that of the whole row: pale before it is computed, the one at work framed. */
  bars(pen, box, model, row, known, name, sign, words, show) {
    const { u, theme } = pen, y = box.y + 21 * u, count = model.keyBlocks, { now } = known;
    const values = Array.from(model.arrays[name].subarray(row * count, (row + 1) * count));
    const width = pen.text(sign, box.x, y, { size: 17, weight: 700, color: theme.S });
    pen.text(words, box.x + width + 10 * u, y - u, { size: 13, color: theme.muted, room: box.w - width - 110 * u });
    pen.text(now >= 0 && known[name](now) ? show(values[now]) : "–", box.x + box.w, y, { size: 21, weight: 700, mono: true, align: "right" });
    const plot = { x: box.x, y: y + 12 * u, w: box.w, h: box.h - 58 * u }, pitch = plot.w / count;
    pen.box(plot.x, plot.y, plot.w, plot.h, theme.panel, 5);
    const low = Math.min(0, ...values), high = Math.max(0, ...values), scale = (plot.h - 16 * u) / (high - low || 1), zero = plot.y + 8 * u + high * scale;
    values.forEach((value, n) => {
      const w = Math.max(1, pitch - (pitch > 4 ? 2 : 0)), h = Math.max(1, Math.abs(value) * scale), top = value > 0 ? zero - h : zero;
      if (value === 0) return;
      if (known[name](n)) pen.box(plot.x + n * pitch, top, w, h, n === now ? theme.S : mix(theme.S, theme.ground, 0.62), 1.5);
      else pen.box(plot.x + n * pitch, top, w, h, theme.cell, 1.5);
      if (n === now) pen.frame(plot.x + n * pitch - 1, top - 1, w + 2, h + 2, theme.edge, 1.4 * u, 1.5);
    });
    pen.rule(plot.x, zero, plot.w);
    const foot = plot.y + plot.h + 15 * u, small = { size: 11.5, color: theme.muted };
    pen.text("key tile 0", box.x, foot, small);
    pen.text(String(count - 1), box.x + box.w, foot, { ...small, align: "right" });
  }
}
