// Lanes over time, from left to right: drawn once in full colour and once pale, and cut together at the playhead.

import { clamp, microseconds, roundStep, unitOf } from "./format.js";
import { sheet } from "./pen.js";

const EDGE = 30; // units from the end in which words would leave the chart
const MOST_KEPT = 8; // pictures

/**
 * A panel of a model with its `longest`: `layout` sets `plot`, where the lanes lie, and `high`, how far below its top
 * the pictures reach; `drawn(ctx, ...values)` draws what is asked for by these values.
 */
export class LaneChart {
  pictures = new Map();
  small = 11.5; // units of type at the ticks
  lined = false; // from top to bottom at each of them

  x(time) {
    return this.plot.x + (time / this.model.longest) * this.plot.w;
  }

  timeAt(px) {
    return ((px - this.plot.x) / this.plot.w) * this.model.longest;
  }

  /** One picture up to a moment and the other beyond it, each asked for by its values; where they meet. */
  cutTogether(ctx, time, now, later) {
    const { x, w } = this.plot,
      cut = clamp(this.x(time), x, x + w);
    this.paste(ctx, this.picture(now), x, cut);
    this.paste(ctx, this.picture(later), cut, x + w);
    return cut;
  }

  /** Part of a picture, from one abscissa to another. */
  paste(ctx, picture, from, to) {
    const { plot, high, dpr } = this;
    if (to - from < 0.5) return;
    const source = [(from - plot.x) * dpr, 0, (to - from) * dpr, high * dpr];
    ctx.drawImage(picture, ...source, from, plot.y, to - from, high);
  }

  /** A picture of these values, on the ground of a panel; drawn once and kept. */
  picture(values) {
    const name = values.join(),
      { plot, high, dpr, theme, pictures } = this;
    if (pictures.size > MOST_KEPT) pictures.clear();
    if (!pictures.has(name)) {
      const ctx = sheet({ ...plot, h: high }, dpr);
      ctx.fillStyle = theme.panel;
      ctx.fillRect(plot.x, plot.y, plot.w, plot.h);
      this.drawn(ctx, ...values);
      pictures.set(name, ctx.canvas);
    }
    return pictures.get(name);
  }

  /** The playhead, which stands out above and below. */
  playhead({ ctx, theme }, cut, out) {
    ctx.fillStyle = theme.edge;
    ctx.fillRect(Math.round(cut) - 0.5, this.plot.y - out, 1.5, this.high + 2 * out);
  }

  /** Ticks below, each of so many units at least; `words(tick, step, last)` are said of one: as they are, microseconds. */
  ticks(pen, wide, words = this.inMicroseconds, first = "left") {
    const { plot, high } = this,
      { longest } = this.model,
      { u, theme, ctx } = pen,
      bottom = plot.y + high,
      top = this.lined ? plot.y : bottom,
      step = roundStep(longest, Math.max(2, Math.floor(plot.w / (wide * u))));
    for (let tick = 0; tick <= longest + 1e-9; tick += step) {
      const x = this.x(tick),
        last = tick + step > longest + 1e-9,
        align = !tick ? first : x > plot.x + plot.w - EDGE * u ? "right" : "center",
        style = { size: this.small, color: theme.muted, mono: true, align };
      ctx.fillStyle = theme.line;
      ctx.fillRect(Math.round(x), top, 1, bottom + 4 * u - top);
      pen.text(words.call(this, tick, step, last), x, bottom + 17 * u, style);
    }
  }

  inMicroseconds(tick, step, last) {
    const [unit, name] = unitOf(this.model.longest);
    return `${microseconds(tick / unit, step / unit)}${last ? ` ${name}` : ""}`;
  }
}
