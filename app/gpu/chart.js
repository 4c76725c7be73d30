// SMs from top to bottom, time from left to right, every block a bar; below, what crosses HBM meanwhile.

import { duration, percent, rate } from "../canvas/format.js";
import { LaneChart } from "../canvas/lane_chart.js";
import { mix } from "../canvas/theme.js";
import { drawFlow } from "../hbm/flow.js";

const STRENGTHS = 24; // shades of a colour
const SOME = 4, // of so many SMs one is drawn where all have no room
  THINNEST = 1.2; // units of height of an SM that is drawn with all others
const PALE = 0.28; // of what is still to come
const LOW = 200; // units of height in which, as in a hall's type, a line of words and the SMs must do

export class ChartPanel extends LaneChart {
  layout(box) {
    const { u, lane } = this;
    this.low = box.h < LOW * u;
    this.narrow = !this.low && box.w < 660 * u;
    const left = 46 * u,
      top = (this.narrow ? 62 : 26) * u,
      gap = 8 * u,
      flow = !this.low && lane.flow ? 60 * u : 0,
      h = box.h - top - flow - 26 * u;
    this.plot = { x: box.x + left, y: box.y + top, w: box.w - left - 8 * u, h };
    this.flow = flow && { ...this.plot, y: this.plot.y + h + gap, h: flow - gap };
    this.high = h + flow;
    this.every = h < THINNEST * u * lane.sms ? SOME : 1;
    this.row = h / Math.ceil(lane.sms / this.every);
  }

  /** Where a block's line begins, and how thick it is. */
  line(n) {
    const { lane, plot, row } = this,
      thick = row / lane.resident[lane.kernel[n]];
    return [plot.y + (lane.sm[n] / this.every) * row + lane.slot[n] * thick, thick];
  }

  paint(pen, box, { time }) {
    const { plot, lane, u, theme } = this,
      cut = this.cutTogether(pen.ctx, time, [1], [PALE]),
      style = { size: 11.5, color: theme.muted, mono: true },
      beside = (words, y) => pen.right(String(words), plot.x - 6 * u, y, style);
    this.title(pen, box);
    beside("SM 0", plot.y + 9 * u);
    if (plot.h > 24 * u) beside(lane.sms - 1, plot.y + plot.h);
    this.ticks(pen, 78, undefined, "center");
    if (this.flow) this.name(pen);
    this.playhead(pen, cut, 3 * u);
  }

  title(pen, box) {
    const { lane, plot, narrow, low, u, theme } = this,
      y = box.y + 14 * u,
      alone = low && this.model.lanes.length < 2,
      width = alone ? -12 * u : pen.text(lane.name, plot.x, y, { size: 14, weight: 650 }),
      some = this.every > 1 ? "every 4th SM" : `SMs busy ${percent(lane.busy)}`,
      [whole, tail] = [lane.microseconds, lane.tail].map((time) => duration(time / 1e6)),
      facts = [whole, ...(narrow ? [] : [some]), `tail ${tail}`].join(" · "),
      style = { size: 13, mono: true, room: plot.w },
      source = { size: 12.5, color: theme.good, room: plot.w };
    if (narrow) {
      pen.text(lane.origin, plot.x, y + 18 * u, source);
      pen.text(facts, plot.x, y + 36 * u, style);
      return;
    }
    const more = pen.text(facts, plot.x + width + 12 * u, y, style),
      room = plot.w - width - more - 36 * u;
    pen.right(low ? lane.source : lane.origin, plot.x + plot.w, y, { ...source, room });
  }

  drawn(ctx, strength) {
    this.bars(ctx, strength);
    if (this.flow) this.crossing(ctx, strength);
  }

  /** What crosses HBM meanwhile: read above the line and written below it. */
  crossing(ctx, strength) {
    const { lane, flow, theme, dpr } = this,
      { x, y, w, h } = flow;
    ctx.fillStyle = theme.panel;
    ctx.fillRect(x, y, w, h);
    drawFlow(
      ctx,
      lane.flow,
      { from: x, to: x + w, zero: y + h / 2, pixel: 1 / dpr },
      (px) => this.timeAt(px),
      (share) => Math.min(1, share) * (h / 2),
      (color) => mix(theme[color], theme.panel, strength),
    );
  }

  bars(ctx, strength) {
    const { lane, theme, model } = this,
      border = mix(theme.ground, theme.panel, strength),
      shades = Array.from({ length: STRENGTHS }, (_, n) =>
        mix(mix(theme.Q, theme.ground, 0.3 + (0.7 * n) / (STRENGTHS - 1)), theme.panel, strength),
      );
    for (let n = 0; n < lane.count; n++) {
      if (lane.sm[n] % this.every) continue;
      const [from, to] = [this.x(lane.start[n]), this.x(lane.end[n])],
        [y, thick] = this.line(n);
      ctx.fillStyle = shades[Math.round(lane.shade(n, model.queryBlocks) * (STRENGTHS - 1))];
      ctx.fillRect(from, y, to - from, thick - (thick >= 3 ? 0.6 : 0));
      if (to - from <= 4) continue;
      ctx.fillStyle = border;
      ctx.fillRect(to - 0.7, y, 0.7, thick);
    }
  }

  /** Of the strip below the SMs. */
  name(pen) {
    const { flow, u, theme } = this,
      look = { size: 11.5, weight: 600, halo: theme.panel };
    const { most, interval, origin } = this.lane.flow,
      told = ["HBM: read above, written below", `of ${rate((1e6 * most) / interval)}`, origin];
    pen.right(told, flow.x + flow.w - 4 * u, flow.y + 12 * u, { ...look, room: flow.w - 8 * u });
  }
}
