// Lanes over time, from left to right: drawn once in full colour and once pale, and cut together at the playhead.

import { clamp, roundStep } from "./format.js";
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

  x(time, [from, to] = [0, this.model.longest]) {
    return this.plot.x + ((time - from) / (to - from)) * this.plot.w;
  }

  timeAt(px, [from, to] = [0, this.model.longest]) {
    return from + ((px - this.plot.x) / this.plot.w) * (to - from);
  }

  holds(px, py) {
    const { x, y, w, h } = this.plot;
    return px >= x && px < x + w && py >= y && py < y + h;
  }

  /** One picture up to a moment and the other beyond it, each asked for by its values; where they meet. */
  cutTogether(ctx, time, span, now, later) {
    const { x, w } = this.plot,
      cut = clamp(this.x(time, span), x, x + w);
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

  /** Ticks below, each of so many units at least; `words(tick, step, last)` are said of one. */
  ticks(pen, span, wide, words, first = "center") {
    const { plot, high } = this,
      { u, theme, ctx } = pen,
      [from, to] = span,
      step = roundStep(to - from, Math.max(2, Math.floor(plot.w / (wide * u))));
    for (let tick = Math.ceil(from / step) * step; tick <= to + 1e-9; tick += step) {
      const x = this.x(tick, span),
        last = tick + step > to + 1e-9,
        align = !tick ? first : x > plot.x + plot.w - EDGE * u ? "right" : "center";
      ctx.fillStyle = theme.line;
      ctx.fillRect(Math.round(x), this.lined ? plot.y : plot.y + high, 1, (this.lined ? high : 0) + 4 * u);
      const style = { size: this.small, color: theme.muted, mono: true, align };
      pen.text(words(tick, step, last), x, plot.y + high + 17 * u, style);
    }
  }
}
