// What the score matrix looks like after each phase of a run.

import { clamp, wholePercent } from "../canvas/format.js";
import { hatching, Pen, sheet } from "../canvas/pen.js";
import { mix, veil } from "../canvas/theme.js";

const STRENGTHS = { weights: 0.85, part: 0.55, all: 1 }; // of a tile's colour, by what a phase leaves of it: what is not final is paler

export const NUMBERED = 40; // units of a tile's side from which on it has room for its share

/** The pictures of the matrix after each phase; a moment is cut together out of two of them. */
export class GridLayers {
  constructor(model, run, layout, theme, u) {
    Object.assign(this, { model, run, layout, theme, u });
    this.pictures = [];
  }

  picture(phase) {
    this.pictures[phase] ??= this.draw(phase);
    return this.pictures[phase];
  }

  draw(phase) {
    const { layout, theme, u } = this,
      { dpr } = layout;
    const { x0: x, y0: y, w, h } = layout,
      ctx = sheet({ x, y, w, h }, dpr),
      pen = new Pen(ctx, theme, u);
    pen.hatch(x, y, w, h, theme.hatch, 7 * u);
    this.cells(pen, phase);
    this.maskedHalves(pen);
    if (phase === this.run.phases.length) this.shares(pen);
    return ctx.canvas;
  }

  cells(pen, phase) {
    const { model, run, layout, theme } = this,
      { ctx } = pen,
      { x, y } = layout,
      { first, stop } = model.arrays;
    const whole = run.visitsHidden,
      radius = layout.side > 14 ? 2.5 : 0,
      shades = this.shades(phase),
      last = shades.length - 1;
    for (let i = 0; i < model.queryBlocks; i++) {
      if (stop[i] > first[i] && layout.gap) {
        ctx.fillStyle = theme.ground;
        ctx.fillRect(x[first[i]], y[i], x[stop[i]] - x[first[i]], y[i + 1] - y[i]);
      }
      const even = Math.max(1, stop[i] - first[i]); // in halves of the shades: as much as if all tiles weighed alike
      for (let j = whole ? 0 : first[i]; j < (whole ? model.keyBlocks : stop[i]); j++) {
        const shade = Math.round(clamp((model.share(i, j) * even) / 2, 0, 1) * last);
        pen.box(...layout.cell(i, j), shades[shade], radius);
      }
    }
  }

  /** Colours of a tile after so many phases, from no softmax mass to much. */
  shades(phases) {
    const { run, theme } = this,
      left = run.phases.slice(0, phases).findLast(({ leaves }) => leaves !== "nothing")?.leaves;
    if (!left) return [theme.cell];
    if (left === "scores") return [mix(theme.S, theme.ground, 0.34)];
    const strength = STRENGTHS[left];
    return Array.from({ length: 33 }, (_, n) =>
      mix(theme.P, theme.ground, (0.22 + (0.62 * n) / 32) * strength),
    );
  }

  /** What the mask hides inside tiles that are visited: beyond the edges of what is seen, piece by piece. */
  maskedHalves(pen) {
    const { model, layout, theme } = this,
      { ctx } = pen,
      { drawn } = model;
    if (!drawn.seen.length) return;
    ctx.save();
    ctx.beginPath();
    for (const [i, j] of model.tiles())
      if (model.partial(i, j) || (this.run.visitsHidden && !model.seen(i, j))) ctx.rect(...layout.cell(i, j));
    ctx.clip();
    const { x0, y0, perKey, perQuery } = layout;
    const outline = ([key, query], ...corners) => {
      ctx.moveTo(x0 + key * perKey, y0 + query * perQuery);
      for (const [key, query] of corners) ctx.lineTo(x0 + key * perKey, y0 + query * perQuery);
      ctx.closePath();
    };
    ctx.beginPath();
    drawn.seen.forEach(([top, low, lowSlope, stop, stopSlope], at) => {
      const bottom = drawn.seen[at + 1]?.[0] ?? drawn.seq_q,
        rows = bottom - top;
      outline([0, top], [low, top], [low + rows * lowSlope, bottom], [0, bottom]);
      outline([stop, top], [drawn.seq_kv, top], [drawn.seq_kv, bottom], [stop + rows * stopSlope, bottom]);
    });
    ctx.fillStyle = veil(theme.ground, 0.62);
    ctx.fill();
    ctx.fillStyle = hatching(ctx, theme.hatch, 7 * pen.u);
    ctx.fill();
    ctx.restore();
  }

  /** On large tiles, the share in words. */
  shares(pen) {
    const { model, layout, theme } = this;
    if (layout.side < NUMBERED * pen.u) return;
    for (const [i, j] of model.tiles()) {
      const [x, y, w, h] = layout.cell(i, j),
        style = { size: 14, mono: true, color: theme.ink };
      if (model.seen(i, j))
        pen.centered(wholePercent(model.share(i, j)), x + w / 2, y + h / 2 + 5 * pen.u, style);
    }
  }
}
