// SMs from top to bottom, time from left to right, every block a bar; below, how many SMs have work.

import { duration, microseconds, percent, rate, unitOf } from "../canvas/format.js";
import { LaneChart } from "../canvas/lane_chart.js";
import { mix } from "../canvas/theme.js";
import { drawFlow } from "../hbm/flow.js";
import { COLOURINGS, NOWHERE } from "./placement.js";
import { blockWords } from "./story.js";

const STRENGTHS = 24; // shades of a colour
const SOME = 4, // of so many SMs one is drawn where all have no room
  THINNEST = 1.2; // units of height of an SM that is drawn with all others
const PALE = 0.28; // of what is still to come

export class ChartPanel extends LaneChart {
  follows = ["time", "window", "colouring"];

  layout(box) {
    const { u, lane } = this;
    this.low = box.h < 170 * u; // as in a hall's type, where a line of words and the SMs must do
    this.narrow = !this.low && box.w < 660 * u;
    const left = 46 * u,
      top = (this.narrow ? 62 : 26) * u,
      strip = this.low ? 0 : 30 * u,
      gap = this.low ? 0 : 8 * u,
      flow = !this.low && lane.flow ? 60 * u : 0,
      axis = 26 * u;
    const h = box.h - top - strip - flow - axis - gap;
    this.plot = { x: box.x + left, y: box.y + top, w: box.w - left - 8 * u, h };
    this.strip = { ...this.plot, y: this.plot.y + h + gap, h: strip };
    this.flow = flow && { ...this.plot, y: this.strip.y + strip + gap, h: flow - gap };
    this.high = h + gap + strip + flow;
    this.every = h < THINNEST * u * lane.sms ? SOME : 1;
    this.row = h / Math.ceil(lane.sms / this.every);
  }

  /** Where the block at a point lies in the window, and its words. */
  pointed(px, py, { window }) {
    const { plot, lane } = this;
    if (!this.holds(px, py)) return null;
    const place = (py - plot.y) / this.row,
      row = Math.floor(place),
      n = lane.blockAt(row * this.every, place - row, this.timeAt(px, window));
    if (n === NOWHERE) return null;
    const [top, thick] = this.line(n),
      left = Math.max(plot.x, this.x(lane.start[n], window)),
      right = Math.min(plot.x + plot.w, this.x(lane.end[n], window));
    return [[left, top, right - left, thick], () => blockWords(this.model, lane, n)];
  }

  /** Where a block's line begins, and how thick it is. */
  line(n) {
    const { lane, plot, row } = this,
      thick = row / lane.resident[lane.kernel[n]];
    return [plot.y + (lane.sm[n] / this.every) * row + lane.slot[n] * thick, thick];
  }

  paint(pen, box, { time, window, colouring }) {
    const { plot, strip, lane } = this,
      { u, theme } = pen;
    this.title(pen, box);
    const [now, later] = [1, PALE].map((strength) => [strength, colouring, ...window]),
      cut = this.cutTogether(pen.ctx, time, window, now, later);
    const style = { size: 11.5, color: theme.muted, mono: true };
    pen.right("SM 0", plot.x - 6 * u, plot.y + 9 * u, style);
    if (plot.h > 24 * u) pen.right(String(lane.sms - 1), plot.x - 6 * u, plot.y + plot.h, style);
    if (!this.low) {
      pen.right(String(lane.sms), plot.x - 6 * u, strip.y + 9 * u, style);
      pen.right("0", plot.x - 6 * u, strip.y + strip.h, style);
    }
    this.axis(pen, window);
    if (time < window[0] || time > window[1]) return;
    this.playhead(pen, cut, 3 * u);
  }

  title(pen, box) {
    const { lane, plot, narrow, low } = this,
      { u, theme } = pen,
      y = box.y + 14 * u;
    const alone = low && this.model.lanes.length < 2,
      width = alone ? -12 * u : pen.text(lane.name, plot.x, y, { size: 14, weight: 650 });
    const some = this.every > 1 ? "every 4th SM" : `SMs busy ${percent(lane.busy)}`,
      [whole, tail] = [lane.microseconds, lane.tail].map((time) => duration(time / 1e6)),
      facts = [whole, ...(narrow ? [] : [some]), `tail ${tail}`].join(" · ");
    const style = { size: 13, mono: true, room: plot.w };
    const source = { size: 12.5, color: theme.good };
    if (narrow) {
      pen.text(lane.origin, plot.x, y + 18 * u, { ...source, room: plot.w });
      pen.text(facts, plot.x, y + 36 * u, style);
      return;
    }
    const more = pen.text(facts, plot.x + width + 12 * u, y, style);
    pen.right(low ? lane.source : lane.origin, plot.x + plot.w, y, {
      ...source,
      room: plot.w - width - more - 36 * u,
    });
  }

  drawn(ctx, strength, colouring, ...span) {
    const { strip, theme } = this;
    this.bars(ctx, span, colouring, strength);
    ctx.fillStyle = theme.panel;
    ctx.fillRect(strip.x, strip.y, strip.w, strip.h);
    this.working(ctx, span, strength);
    if (this.flow) this.crossing(ctx, span, strength);
  }

  /** What crosses HBM meanwhile: read above the line and written below it. */
  crossing(ctx, span, strength) {
    const { lane, flow, theme, dpr } = this,
      { x, y, w, h } = flow,
      zero = y + h / 2;
    ctx.fillStyle = theme.panel;
    ctx.fillRect(x, y, w, h);
    drawFlow(
      ctx,
      lane.flow,
      { from: x, to: x + w, zero, pixel: 1 / dpr },
      (px) => this.timeAt(px, span),
      (share) => Math.min(1, share) * (h / 2),
      (color) => mix(theme[color], theme.panel, strength),
    );
  }

  bars(ctx, window, colouring, strength) {
    const { lane, plot, theme, model } = this,
      hue = theme[COLOURINGS[colouring][1]];
    const shades = Array.from({ length: STRENGTHS }, (_, n) =>
      mix(mix(hue, theme.ground, 0.3 + (0.7 * n) / (STRENGTHS - 1)), theme.panel, strength),
    );
    const border = mix(theme.ground, theme.panel, strength);
    for (let n = 0; n < lane.count; n++) {
      if (lane.sm[n] % this.every) continue;
      const from = Math.max(plot.x, this.x(lane.start[n], window)),
        to = Math.min(plot.x + plot.w, this.x(lane.end[n], window));
      if (to <= from) continue;
      const [y, thick] = this.line(n),
        shade = lane.shade(n, colouring, model.heads, model.queryBlocks);
      ctx.fillStyle = shades[Math.round(shade * (STRENGTHS - 1))];
      ctx.fillRect(from, y, to - from, thick - (thick >= 3 ? 0.6 : 0));
      if (to - from > 4) {
        ctx.fillStyle = border;
        ctx.fillRect(to - 0.7, y, 0.7, thick);
      }
    }
  }

  /** SMs that run a block, over time; what is missing above stands idle. */
  working(ctx, [from, to], strength) {
    const { lane, strip, theme } = this,
      columns = Math.ceil(strip.w);
    ctx.fillStyle = mix(theme.statistics, theme.panel, strength);
    for (let column = 0; column < columns; column++) {
      const share = lane.at(from + ((column + 0.5) / columns) * (to - from)).busy / lane.sms;
      ctx.fillRect(strip.x + column, strip.y + strip.h * (1 - share), 1, strip.h * share);
    }
  }

  axis(pen, span) {
    const { strip, lane } = this,
      { u, theme } = pen,
      [unit, name] = unitOf(span[1]);
    const words = (tick, step, last) => `${microseconds(tick / unit, step / unit)}${last ? ` ${name}` : ""}`;
    this.ticks(pen, span, 78, words);
    if (this.low) return;
    const look = { size: 11.5, weight: 600, halo: theme.panel }; // the strip below is dark or pale, or not there
    pen.text("SMs with work", strip.x + 4 * u, strip.y + 12 * u, look);
    if (!this.flow) return;
    const most = rate((1e6 * lane.flow.most) / lane.flow.interval);
    const { x, y, w } = this.flow,
      told = ["HBM: read above, written below", `of ${most}`, lane.flow.origin];
    pen.right(told, x + w - 4 * u, y + 12 * u, { ...look, room: w - 8 * u });
  }
}
