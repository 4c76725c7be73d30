// One call over time: bytes read above the line and written below it; opened, what was at work on the chip.

import { clamp, percent, rate, traffic } from "../canvas/format.js";
import { LaneChart } from "../canvas/lane_chart.js";
import { mix } from "../canvas/theme.js";
import { drawFlow, WAYS } from "./flow.js";

const PALE = 0.28; // of what is still to come
const LATE = 0.6; // of what was written after the end
const ROOF = 1.12; // times what the memory delivers: an interval may have more
const OUTLINE = 4; // px for which the model's line stays level
const NARROW = 660; // units of width that have no room for numbers beside a lane
const PHONE = 460; // nor beside its name
const COUNTERS = 240; // units of them there
export const FOOT = 26; // units below the lowest
const UNFOLDED = 0.56; // of a lane, at most, for what was at work on the chip
const TIGHT = 110; // units of height that have room for few words
const STRIPS = [
  ["sms", "SMs with work", "good"],
  ["tensor", "tensor cores", "S"],
  ["exponentials", "exponentials", "statistics"],
];

/** Units above a lane's bytes: for its name, on a phone its numbers, and what its kernels do where there are several. */
export const aboveOf = ({ kernels }, wide) => 24 + (wide < PHONE ? 22 : 0) + (kernels.length > 1 ? 20 : 0);

export class FlowPanel extends LaneChart {
  layout(box) {
    const { u, lane, model, open, lowest } = this;
    this.narrow = box.w < NARROW * u;
    this.phone = box.w < PHONE * u;
    this.small = Math.max(12.5, this.narrow ? 14.1 / u : 0); // 14 px on a phone
    const [left, side] = this.narrow ? [2 * u, 2 * u] : [66 * u, 172 * u],
      top = aboveOf(lane, box.w / u) * u,
      room = Math.round(box.h - top - (lowest ? FOOT : 4) * u),
      rows = clamp(Math.floor((UNFOLDED * room) / (18 * u)), 1, model.blocks ? 4 : 3), // the SMs have two for blocks
      step = open ? Math.round(Math.min(30 * u, (UNFOLDED * room) / rows)) : 0;
    this.high = room;
    this.flow = room - rows * step; // px of both ways
    const [x, y, w] = [Math.round(box.x) + Math.round(left), box.y + top, box.w - Math.round(left) - side];
    this.plot = { x, y: Math.round(y), w: Math.round(w), h: this.flow };
    this.until = this.x(lane.interval * lane.columns.written.length);
    this.zero = this.plot.y + Math.round(this.flow / 2);
    this.strips = [];
    let low = this.plot.y + this.flow;
    for (const [name, words, color] of open ? STRIPS.slice(0, rows) : []) {
      const h = step * (rows > STRIPS.length && name === "sms" ? 2 : 1);
      if (name in lane.columns) this.strips.push({ name, words, color, y: low + 4, h: h - 4 });
      low += h;
    }
  }

  /** Pixels of a share of what the memory delivers. */
  tall(share) {
    return Math.min(share / ROOF, 1) * (this.flow / 2);
  }

  paint(pen, box, { time, outline }) {
    const cut = this.cutTogether(pen.ctx, time, [1, outline], [PALE, outline]);
    this.head(pen, box, outline);
    this.scale(pen);
    this.kernels(pen);
    this.counters(pen, box, time);
    if (this.lowest) this.ticks(pen, 78);
    this.playhead(pen, cut, 3 * pen.u);
  }

  head(pen, box, outline) {
    const { lane, plot, narrow, small, u, theme } = this,
      y = box.y + 15 * u,
      origin = { size: small, color: theme.good },
      beside = narrow && !this.phone ? COUNTERS * u : 0,
      wide = lane.origin && !narrow ? pen.right(lane.origin, plot.x + plot.w, y, origin) + 12 * u : 0,
      brings = lane.kernels.length > 1 ? "" : lane.kernels[0]?.[2],
      facts = (outline ? lane.modelled : [brings, ...lane.shape]).filter(Boolean);
    pen.heading(lane.name, facts, plot.x, y, plot.w - wide - beside, { size: 15, note: { size: small } });
    if (narrow && lane.origin && !this.open)
      pen.text(lane.origin, plot.x + 4 * u, this.zero + this.tall(1) - 6 * u, {
        ...origin,
        halo: theme.panel,
      });
  }

  /** What the memory delivers, on both sides of the line. */
  scale(pen) {
    const { plot, lane, zero, narrow, small, u, theme } = this,
      most = rate((1e6 * lane.most) / lane.interval),
      style = { size: small, color: theme.muted, mono: true };
    for (const side of [-1, 1]) {
      const y = Math.round(zero + side * this.tall(1));
      pen.line([plot.x, y + 0.5, plot.x + plot.w, y + 0.5], theme.muted, 1, [4, 4]);
      if (!narrow) pen.right(most, plot.x - 8 * u, y + 4 * u, { ...style, size: 12 });
      else if (lane.origin && side < 0 && !this.open) pen.text(most, plot.x + 14 * u, y + 15 * u, style);
    }
    pen.rule(plot.x, zero, plot.w);
    for (const { words, y, h } of narrow ? this.strips : [])
      pen.text(words, plot.x + 4 * u, y + h - 6 * u, { size: small, halo: theme.panel });
  }

  /** What each kernel brings and leaves, above its time. */
  kernels(pen) {
    const { plot, lane, small, u, theme } = this;
    for (const [start, end, words] of lane.kernels.length > 1 ? lane.kernels : []) {
      const from = this.x(start),
        wide = this.x(end) - from - 2;
      pen.box(from, plot.y - 4 * u, wide, 2 * u, theme.muted, 0);
      if (wide <= 56 * u) continue;
      pen.centered(words, from + wide / 2, plot.y - 8 * u, { size: small, color: theme.muted, room: wide });
    }
  }

  /** Bytes until now, each way; and of what was at work, how much now. */
  counters(pen, box, time) {
    const { lane, plot, zero, narrow, phone, small, u, theme } = this,
      side = box.x + box.w;
    let at = phone ? plot.x : side - COUNTERS * u;
    for (const [way, color, turn] of WAYS) {
      const [now, all] = [time, Infinity].map((moment) => traffic(Math.round(lane.until(way, moment)))),
        style = { size: small, weight: 650, mono: true, color: theme[color] },
        y = zero + turn * this.flow * 0.25;
      if (narrow) at += pen.text(`${now} ${way}`, at, box.y + (phone ? 36 : 15) * u, style) + 14 * u;
      else if (this.flow < TIGHT * u) pen.right(`${now} ${way}`, side, zero + (turn * 12 + 5) * u, style);
      else {
        pen.value(now, side, y + 2 * u, { color: theme[color] });
        pen.note(`of ${all} ${way}`, side, y + 20 * u, { align: "right" });
      }
    }
    for (const { name, words, color, y, h } of narrow ? [] : this.strips) {
      const now = time < lane.end ? lane.columns[name][Math.floor(time / lane.interval)] / 1000 : 0,
        base = y + h / 2 + 5 * u;
      pen.note(words, plot.x + plot.w + 12 * u, base, { color: theme[color] });
      pen.right(percent(now), side, base, { mono: true });
    }
  }

  drawn(ctx, strength, outlined) {
    const { plot, lane, theme, dpr, strips, until } = this,
      pixel = 1 / dpr,
      shade = (color, part) => mix(theme[color], theme.panel, strength * part);
    ctx.fillStyle = theme.panel;
    for (const { y, h } of strips) ctx.fillRect(plot.x, y, plot.w, h);
    drawFlow(
      ctx,
      lane,
      { from: plot.x, to: until, zero: this.zero, pixel },
      (x) => this.timeAt(x),
      (share) => this.tall(share),
      (color, time) => shade(color, time < lane.end ? 1 : LATE),
    );
    for (const { name, color, y, h } of strips) {
      if (name === "sms" && lane.blocks) this.blocks(ctx, y, h, shade);
      ctx.fillStyle = shade(color, 1);
      for (let x = plot.x; x < this.x(lane.end) && !(name === "sms" && lane.blocks); x += pixel) {
        const high = (lane.mean(name, this.timeAt(x), this.timeAt(x + pixel)) / 1000) * h;
        ctx.fillRect(x, y + h - high, pixel, high);
      }
    }
    if (outlined && "model_read" in lane.columns) this.outline(ctx, mix(theme.ink, theme.panel, strength));
  }

  /** Each block on its SM, waves in turn brighter and darker. */
  blocks(ctx, y, h, shade) {
    const { sm, start, length, wave } = this.lane.blocks,
      row = h / this.lane.sms;
    sm.forEach((place, n) => {
      const from = this.x(start[n]);
      ctx.fillStyle = shade("good", wave[n] % 2 ? 0.6 : 0.95);
      ctx.fillRect(from, y + place * row, this.x(start[n] + length[n]) - from, row);
    });
  }

  /** What the model has cross, as a line. */
  outline(ctx, color) {
    const { lane, zero, plot } = this,
      until = Math.min(plot.x + plot.w, this.x(lane.interval * lane.columns.model_written.length));
    Object.assign(ctx, { strokeStyle: color, lineWidth: 1.5 });
    for (const [way, , turn] of WAYS) {
      ctx.beginPath();
      for (let x = plot.x; x < until; x += OUTLINE) {
        const mean = lane.mean(`model_${way}`, this.timeAt(x), this.timeAt(x + OUTLINE)),
          y = zero + turn * this.tall(mean / lane.most);
        ctx.lineTo(x, y);
        ctx.lineTo(x + OUTLINE, y);
      }
      ctx.stroke();
    }
  }
}
