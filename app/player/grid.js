// The score matrix as tiles, with Q at its left, K and V above it and O at its right.

const snap = (x, dpr) => Math.round(x * dpr) / dpr;

/** Where the tiles of a problem lie in a box; ragged last tiles are narrower, as they are in memory. */
class GridLayout {
  constructor(model, box, { left, right }, u, dpr) {
    const { drawn } = model, top = 46 * u;
    const room = { w: box.w - left - right, h: box.h - top };
    let perKey = room.w / drawn.seq_kv, perQuery = room.h / drawn.seq_q;
    const aspect = (model.queryRows(0) * perQuery) / (model.keyRows(0) * perKey);
    if (aspect > 2.5) perQuery = Math.max((perQuery * 2.5) / aspect, Math.min(perQuery, (20 * u) / model.queryRows(0)));
    if (aspect < 0.4) perKey = Math.max((perKey * aspect) / 0.4, Math.min(perKey, (20 * u) / model.keyRows(0)));
    const square = drawn.seq_q / drawn.seq_kv;
    if (square > 0.8 && square < 1.25) perKey = perQuery = Math.min(perKey, perQuery);
    Object.assign(this, { box, u, dpr, perKey, perQuery });
    this.x0 = snap(box.x + left, dpr);
    this.y0 = snap(box.y + top, dpr);
    const edges = (start, count, block, length, scale) =>
      Float64Array.from({ length: count + 1 }, (_, n) => snap(start + Math.min(n * block, length) * scale, dpr));
    this.x = edges(this.x0, model.keyBlocks, drawn.block_kv, drawn.seq_kv, perKey);
    this.y = edges(this.y0, model.queryBlocks, drawn.block_q, drawn.seq_q, perQuery);
    this.w = this.x[model.keyBlocks] - this.x0;
    this.h = this.y[model.queryBlocks] - this.y0;
    const side = Math.min(this.x[1] - this.x[0], this.y[1] - this.y[0]);
    this.gap = side >= 12 ? 2 : side >= 5 ? 1 : side >= 3 ? 1 / dpr : 0;
    this.side = side;
    this.o = { x: this.x0 + this.w + 12 * u, w: 32 * u };
    this.q = { x: this.x0 - 15 * u, w: 9 * u };
    this.right = this.o.x + this.o.w;
    this.mark = this.q.x; // left of which the chosen row is marked
    this.below = 0; // what stands below the tiles
  }

  cell(i, j) {
    const { x, y, gap } = this;
    return [x[j], y[i], x[j + 1] - x[j] - gap, y[i + 1] - y[i] - gap];
  }

  /** The tile [i, j] at a point, or null. */
  tileAt(px, py) {
    const i = this.queryAt(py);
    if (i < 0 || px < this.x0 || px >= this.x0 + this.w) return null;
    let j = 0;
    while (px >= this.x[j + 1]) j++;
    return [i, j];
  }

  /** The query block at a height, or -1. */
  queryAt(py) {
    if (py < this.y0 || py >= this.y0 + this.h) return -1;
    let i = 0;
    while (py >= this.y[i + 1]) i++;
    return i;
  }
}

/** The pictures of the matrix after each phase; a moment is cut together out of two of them. */
class GridLayers {
  constructor(model, run, layout, theme, u) {
    Object.assign(this, { model, run, layout, theme, u });
    this.pictures = [];
  }

  picture(phase) {
    return (this.pictures[phase] ??= this.draw(phase));
  }

  draw(phase) {
    const { layout, theme, u } = this, { dpr } = layout;
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(layout.w * dpr));
    canvas.height = Math.max(1, Math.round(layout.h * dpr));
    const ctx = canvas.getContext("2d");
    ctx.setTransform(dpr, 0, 0, dpr, -layout.x0 * dpr, -layout.y0 * dpr);
    const pen = new Pen(ctx, theme, u);
    ctx.fillStyle = hatching(ctx, theme.hatch, 7 * u, dpr);
    ctx.fillRect(layout.x0, layout.y0, layout.w, layout.h);
    this.cells(pen, phase);
    this.maskedHalves(pen);
    if (phase === this.run.phases.length) this.shares(pen);
    return canvas;
  }

  cells(pen, phase) {
    const { model, run, layout, theme } = this, { ctx } = pen, { x, y } = layout, { first, stop } = model.arrays;
    const whole = run.name === "standard", radius = layout.side > 14 ? 2.5 : 0, shades = this.shades(phase);
    for (let i = 0; i < model.queryBlocks; i++) {
      if (stop[i] > first[i] && layout.gap) {
        ctx.fillStyle = theme.ground;
        ctx.fillRect(x[first[i]], y[i], x[stop[i]] - x[first[i]], y[i + 1] - y[i]);
      }
      const even = Math.max(1, stop[i] - first[i]); // in halves of the shades: as much as if all tiles weighed alike
      for (let j = whole ? 0 : first[i]; j < (whole ? model.keyBlocks : stop[i]); j++) {
        const shade = shades[Math.round(clamp((model.share(i, j) * even) / 2, 0, 1) * (shades.length - 1))];
        pen.box(x[j], y[i], x[j + 1] - x[j] - layout.gap, y[i + 1] - y[i] - layout.gap, shade, radius);
      }
    }
  }

  /** Colours of a tile after a phase, from no softmax mass to much; S and P that stand in memory are paler. */
  shades(phase) {
    const { run, theme } = this, standing = run.name !== "backward" ? run.name === "standard" && phase < 3 : phase < 3;
    if (phase === 0 || (run.name === "backward" && phase === 1)) return [theme.cell];
    if (run.name === "standard" && phase === 1) return [mix(theme.S, theme.ground, 0.34)];
    const strength = standing ? (run.name === "backward" ? 0.55 : 0.85) : 1;
    return Array.from({ length: 33 }, (_, n) => mix(theme.P, theme.ground, (0.22 + (0.62 * n) / 32) * strength));
  }

  /** What the mask hides inside tiles that are visited: beyond the diagonal, the window's edge, other documents. */
  maskedHalves(pen) {
    const { model, layout, theme } = this, { ctx } = pen, { drawn } = model, { documents } = drawn;
    if (!drawn.causal && !documents.length) return;
    ctx.save();
    ctx.beginPath();
    for (let i = 0; i < model.queryBlocks; i++) {
      for (let j = 0; j < model.keyBlocks; j++) {
        const masked = model.partial(i, j) || (this.run.name === "standard" && !model.seen(i, j));
        if (masked) ctx.rect(...layout.cell(i, j));
      }
    }
    ctx.clip();
    const offset = drawn.seq_kv - drawn.seq_q, { x0, y0, perKey, perQuery } = layout, n = drawn.seq_q;
    const outline = (...corners) => {
      corners.forEach(([key, query], at) => ctx[at ? "lineTo" : "moveTo"](x0 + key * perKey, y0 + query * perQuery));
      ctx.closePath();
    };
    ctx.beginPath(); // what is hidden on the left turns one way, on the right the other: overlaps are veiled once
    const right = (start, end, far, top = 0, bottom = n) => outline([start, top], [end, bottom], [far, bottom], [far, top]);
    const left = (start, end, far, top = 0, bottom = n) => outline([far, top], [start, top], [end, bottom], [far, bottom]);
    if (drawn.causal) right(offset + 1, n + offset + 1, Math.max(drawn.seq_kv, n + offset + 1));
    if (drawn.window !== null) left(offset + 1 - drawn.window, n + offset + 1 - drawn.window, Math.min(0, offset + 1 - drawn.window));
    for (let at = 0; at + 1 < documents.length; at++) {
      const start = documents[at], end = documents[at + 1], top = at ? start - offset : 0;
      left(start, start, 0, top, end - offset);
      right(end, end, drawn.seq_kv, top, end - offset);
    }
    ctx.fillStyle = mix(theme.ground, theme.ground, 1).replace(")", ",0.62)").replace("rgb", "rgba");
    ctx.fill();
    ctx.fillStyle = hatching(ctx, theme.hatch, 7 * pen.u, layout.dpr);
    ctx.fill();
    ctx.restore();
  }

  /** On large tiles, the share in words. */
  shares(pen) {
    const { model, layout, theme } = this;
    if (layout.side < 40 * pen.u) return;
    for (let i = 0; i < model.queryBlocks; i++) {
      for (let j = 0; j < model.keyBlocks; j++) {
        if (!model.seen(i, j)) continue;
        const [x, y, w, h] = layout.cell(i, j);
        const words = wholePercent(model.share(i, j));
        pen.text(words, x + w / 2, y + h / 2 + 5 * pen.u, { size: 14, align: "center", mono: true, color: theme.ink });
      }
    }
  }
}

/** Paints one moment of a run on a grid. */
class GridPainter {
  constructor(model, run, layout, theme, u) {
    Object.assign(this, { model, run, layout, theme, u });
    this.layers = new GridLayers(model, run, layout, theme, u);
  }

  /** Phase, outer block and inner block of a step; the inner is NONE before the visits, `ended` after them. */
  moment(step) {
    const { run } = this;
    if (step < 0) return { phase: 0, outer: 0, inner: NONE, i: NONE, j: NONE, ended: false };
    if (step >= run.steps) return { phase: run.phases.length, outer: 0, inner: NONE, i: NONE, j: NONE, ended: false };
    const phase = run.phase[step], byQuery = run.phases[phase].outer === "query";
    const i = run.query[step], j = run.key[step];
    const [outer, inner] = byQuery ? [i, j] : [j, i];
    return { phase, byQuery, outer, inner, i, j, ended: inner === NONE && run.operation[step] === STORE };
  }

  paint(pen, step) {
    const moment = this.moment(step);
    this.matrix(pen.ctx, moment);
    this.operands(pen, moment, step);
    this.output(pen, moment, step);
    if (moment.i !== NONE && moment.j !== NONE) this.active(pen, this.layout.cell(moment.i, moment.j), this.theme.S);
    else if (moment.i !== NONE && moment.phase === 1 && this.run.name === "standard") this.active(pen, this.wholeRow(moment.i));
  }

  matrix(ctx, { phase, byQuery, outer, inner, ended }) {
    const { layout, layers, run } = this, { x, y, x0, y0, w, h } = layout;
    ctx.drawImage(layers.picture(phase), x0, y0, w, h);
    if (phase === run.phases.length) return;
    const next = layers.picture(phase + 1), { dpr } = layout;
    const blit = (ax, ay, bx, by) => {
      const [dw, dh] = [bx - ax, by - ay];
      if (dw <= 0 || dh <= 0) return;
      ctx.clearRect(ax, ay, dw, dh);
      ctx.drawImage(next, (ax - x0) * dpr, (ay - y0) * dpr, dw * dpr, dh * dpr, ax, ay, dw, dh);
    };
    if (byQuery) {
      blit(x0, y0, x0 + w, y[outer]);
      const reach = ended ? x0 + w : inner === NONE ? x0 : x[inner];
      if (run.reverse && inner !== NONE) blit(x[inner + 1], y[outer], x0 + w, y[outer + 1]);
      else blit(x0, y[outer], reach, y[outer + 1]);
    } else if (byQuery === false) {
      blit(x0, y0, x[outer], y0 + h);
      blit(x[outer], y0, x[outer + 1], inner === NONE ? y0 : y[inner]);
    }
  }

  wholeRow(i) {
    const { x0, y, w, gap } = this.layout;
    return [x0, y[i], w - gap, y[i + 1] - y[i] - gap];
  }

  active(pen, [x, y, w, h], color) {
    const grow = Math.max(1.5, 1.5 * pen.u);
    if (color) pen.box(x - grow, y - grow, w + 2 * grow, h + 2 * grow, color, 3);
    pen.frame(x - grow, y - grow, w + 2 * grow, h + 2 * grow, this.theme.edge, 1.6 * pen.u, 3);
  }

  operands(pen, { i, j }, step) {
    const { model, run, layout, theme } = this, { x, y, y0, gap, q } = layout, u = pen.u;
    const busy = step >= 0 && step < run.steps;
    const pale = (name) => mix(theme[name], theme.ground, theme.name === "dark" ? 0.38 : 0.36);
    const usesValues = run.name !== "standard" || (busy && run.phase[step] === 2);
    const usesKeys = run.name !== "standard" || (busy && run.phase[step] === 0);
    const usesQueries = run.name !== "standard" || (busy && run.phase[step] === 0);
    const [keyColor, valueColor, queryColor] = ["K", "V", "Q"].map(pale);
    for (let n = 0; n < model.keyBlocks; n++) {
      const w = x[n + 1] - x[n] - gap, lit = n === j;
      pen.box(x[n], y0 - 24 * u, w, 9 * u, lit && usesKeys ? theme.K : keyColor, 2);
      pen.box(x[n], y0 - 13 * u, w, 9 * u, lit && usesValues ? theme.V : valueColor, 2);
    }
    for (let n = 0; n < model.queryBlocks; n++) {
      pen.box(q.x, y[n], q.w, y[n + 1] - y[n] - gap, n === i && usesQueries ? theme.Q : queryColor, 2);
    }
  }

  /** O: empty, gathered so far, written. In flash1 each part of a bar is one more time that O was written. */
  output(pen, { phase, i, j, outer, ended }, step) {
    const { model, run, layout, theme } = this, { y, gap, o } = layout;
    const over = step >= run.steps, pending = mix(theme.O, theme.ground, 0.55);
    for (let n = 0; n < model.queryBlocks; n++) {
      const h = y[n + 1] - y[n] - gap, first = model.arrays.first[n], stop = model.arrays.stop[n];
      pen.box(o.x, y[n], o.w, h, theme.cell, 2.5);
      if (run.name === "flash1") {
        const { done } = tilesAdded(run, step, n, first, stop - 1);
        const reached = n === i && run.operation[step] === STORE ? j : done;
        this.rewrites(pen, n, h, clamp(reached - first + 1, 0, stop - first), stop - first);
        continue;
      }
      const working = phase === run.phases.length - 1 && !over;
      const complete = over || (working && (n < outer || (n === outer && ended)));
      const from = run.name === "standard" ? 0 : first, to = run.name === "standard" ? model.keyBlocks : stop;
      if (complete) pen.box(o.x, y[n], o.w, h, theme.O, 2.5);
      else if (working && n === outer && j !== NONE) {
        const added = run.reverse ? to - j : j - from + 1;
        pen.box(o.x, y[n], (o.w * added) / Math.max(1, to - from), h, pending, 2.5);
      }
    }
  }

  rewrites(pen, n, h, count, of) {
    const { layout, theme } = this, { o, y } = layout;
    if (!count) return;
    const full = count === of, part = o.w / of;
    pen.box(o.x, y[n], part * count, h, full ? theme.O : mix(theme.O, theme.ground, 0.55), 2.5);
    if (part < 2.5 || h < 4) return;
    pen.ctx.fillStyle = theme.ground;
    for (let at = 1; at < count; at++) pen.ctx.fillRect(o.x + at * part - 0.5, y[n], 1, h);
  }
}
