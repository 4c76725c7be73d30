// One moment of a run on the score matrix.

import { clamp } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { GridLayers } from "./grid_layers.js";
import { tilesAdded } from "./row_state.js";
import { NONE } from "./run.js";
import { WRONG } from "./story.js";

const REDDER = 3; // times its share of the largest number that O is off makes a tile red

/** Paints one moment of a run on a grid. */
export class GridPainter {
  constructor(model, run, layout, theme, u) {
    Object.assign(this, { model, run, layout, theme, u });
    this.layers = new GridLayers(model, run, layout, theme, u);
  }

  /** Phase, outer block and inner block of a step; the inner is NONE before the visits, `ended` after them. */
  moment(step) {
    const { run } = this;
    if (!run.has(step))
      return { phase: step < 0 ? 0 : run.phases.length, outer: 0, inner: NONE, i: NONE, j: NONE };
    const [phase, i, j] = [run.phase[step], run.query[step], run.key[step]],
      byQuery = run.phases[phase].outer === "query",
      [outer, inner] = byQuery ? [i, j] : [j, i];
    return { phase, byQuery, outer, inner, i, j, ended: inner === NONE && run.operation(step) === "store" };
  }

  paint(pen, step, flaw) {
    const moment = this.moment(step),
      { i, j } = moment;
    this.flaw = flaw;
    this.matrix(pen.ctx, moment);
    this.operands(pen, moment, step);
    this.output(pen, moment, step);
    if (i !== NONE && j !== NONE) this.active(pen, this.layout.cell(i, j), this.theme.S);
    else if (i !== NONE && this.run.phases[moment.phase]?.wholeRows) {
      const { x0, w, y, gap } = this.layout;
      this.active(pen, [x0, y[i], w - gap, y[i + 1] - y[i] - gap]);
    }
  }

  matrix(ctx, { phase, byQuery, outer, inner, ended }) {
    const { layout, layers, run } = this,
      { x, y, x0, y0, w, h, dpr } = layout;
    ctx.drawImage(layers.picture(phase), x0, y0, w, h);
    if (phase === run.phases.length) return;
    const next = layers.picture(phase + 1);
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

  active(pen, [x, y, w, h], color) {
    const grow = Math.max(1.5, 1.5 * pen.u),
      grown = [x - grow, y - grow, w + 2 * grow, h + 2 * grow];
    if (color) pen.box(...grown, color, 3);
    pen.frame(...grown, this.theme.edge, 1.6 * pen.u, 3);
  }

  /** The colour of a tile of a tensor; it is pale where it is not at work. */
  tone(name, lit, step) {
    const { theme } = this;
    if (lit && this.run.phaseAt(step).loads.includes(name)) return theme[name];
    return mix(theme[name], theme.ground, theme.name === "dark" ? 0.38 : 0.36);
  }

  operands(pen, { i, j }, step) {
    const { model, layout } = this,
      { x, y, y0, gap, q } = layout,
      { u } = pen;
    for (let n = 0; n < model.keyBlocks; n++) {
      const w = x[n + 1] - x[n] - gap;
      pen.box(x[n], y0 - 24 * u, w, 9 * u, this.tone("K", n === j, step), 2);
      pen.box(x[n], y0 - 13 * u, w, 9 * u, this.tone("V", n === j, step), 2);
    }
    for (let n = 0; n < model.queryBlocks; n++)
      pen.box(q.x, y[n], q.w, y[n + 1] - y[n] - gap, this.tone("Q", n === i, step), 2);
  }

  /** O: empty, accumulated so far, written. Where it is rewritten, each part of a bar is one more time that it was written. */
  output(pen, { phase, i, j, outer, ended }, step) {
    const { model, run, layout, theme } = this,
      { y, gap, o } = layout,
      over = step >= run.steps,
      working = phase === run.phases.length - 1 && !over;
    for (let n = 0; n < model.queryBlocks; n++) {
      const h = y[n + 1] - y[n] - gap,
        [first, stop] = run.visitsHidden
          ? [0, model.keyBlocks]
          : [model.arrays.first[n], model.arrays.stop[n]],
        of = Math.max(1, stop - first);
      if (run.rewrites) {
        const { done } = tilesAdded(run, step, n, first, stop - 1),
          reached = n === i && run.operation(step) === "store" ? j : done;
        this.rewrites(pen, y[n], h, clamp(reached - first + 1, 0, stop - first), of);
        continue;
      }
      const added = !working || n !== outer || j === NONE ? 0 : run.reverse ? stop - j : j - first + 1,
        complete = over || (working && (n < outer || (n === outer && ended))),
        wrong = model.wrongSoFar(this.flaw, run, step, n),
        tint = mix(theme.bad, theme.O, clamp(REDDER * wrong, 0, 1));
      this.gathered(pen, [o.x, y[n], o.w, h], tint, added / of, complete);
      if (wrong > WRONG) pen.hatch(o.x, y[n], o.w, h, theme.ground, 6 * pen.u);
    }
  }

  rewrites(pen, y, h, count, of) {
    const { layout, theme } = this,
      { o } = layout,
      part = o.w / of;
    this.gathered(pen, [o.x, y, o.w, h], theme.O, count / of, count === of);
    if (part < 2.5 || h < 4) return;
    pen.ctx.fillStyle = theme.ground;
    for (let at = 1; at < count; at++) pen.ctx.fillRect(o.x + at * part - 0.5, y, 1, h);
  }

  /** A tile that is empty, pale as far as its sum has come, or written. */
  gathered(pen, [x, y, w, h], tint, part, written) {
    const { theme } = this,
      color = written ? tint : mix(tint, theme.ground, 0.55);
    pen.box(x, y, w, h, theme.cell, 2.5);
    this.fill(pen, x, y, written ? w : w * part, h, color);
  }

  fill(pen, x, y, w, h, color) {
    pen.box(x, y, w, h, color, 2.5);
  }
}
