// A run as a chart: every GPU has a line, computing above and transfers below, in the colour of whose keys they are.

import { duration, percent, subscript } from "../canvas/format.js";
import { LaneChart } from "../canvas/lane_chart.js";
import { Pen } from "../canvas/pen.js";
import { mix } from "../canvas/theme.js";
import { NOBODY } from "./run.js";

const PALE = 0.26; // of what is still to come
const MOVES = 0.36; // of a line's height, for transfers

export class LanesPanel extends LaneChart {
  layout({ x, y, w, h }) {
    const { model, u } = this,
      [left, top, axis] = [52 * u, 24 * u, (this.lowest ? 24 : 8) * u];
    this.run = model.runs[this.number];
    this.plot = { x: x + left, y: y + top, w: w - left - 8 * u, h: h - top - axis };
    this.high = this.plot.h;
    this.row = this.high / model.gpus;
  }

  /** Where a mark lies: [x, y, width, height]. */
  place(n) {
    const { run, row, plot } = this,
      gap = row > 9 ? 1.5 : row > 4 ? 0.6 : 0,
      high = row - gap,
      moves = run.moves(n),
      y = plot.y + run.gpu[n] * row + (moves ? (1 - MOVES) * high : 0),
      x = this.x(run.start[n]),
      w = Math.max(0.5, this.x(run.end[n]) - x);
    return [x, y, w, high * (moves ? MOVES : 1 - MOVES) - (row > 9 ? 1 : 0)];
  }

  paint(pen, box, { time, shown }) {
    const { plot, run, row } = this,
      { u, theme, ctx } = pen,
      style = { size: 11.5, color: theme.muted, mono: true },
      each = Math.max(1, Math.ceil((12 * u) / row));
    this.title(pen, box, shown === this.number);
    const cut = this.cutTogether(ctx, time, [1], [PALE]);
    for (let gpu = 0; gpu < this.model.gpus; gpu += each) {
      const y = plot.y + gpu * row + Math.min(row * 0.5 + 4 * u, 12 * u);
      pen.right(`GPU ${gpu}`, plot.x - 6 * u, y, style);
    }
    ctx.fillStyle = theme.muted;
    ctx.fillRect(this.x(run.length), plot.y, 1, plot.h);
    if (this.lowest) this.ticks(pen, 90, (tick) => duration(tick / 1e6));
    this.playhead(pen, cut, 2 * u);
  }

  title(pen, box, shown) {
    const { run, plot, u, theme } = this,
      y = box.y + 15 * u,
      color = shown ? theme.ink : theme.muted,
      width = pen.text(run.name, plot.x, y, { size: 14, weight: 650, color }) + 12 * u,
      beside = { size: 12.5, color: theme.good, room: Math.max(1, plot.w - width), whole: true },
      room = plot.w - width - pen.right(run.origin, plot.x + plot.w, y, beside) - 18 * u,
      facts = [
        duration(run.length / 1e6),
        `efficiency ${percent(run.efficiency)}`,
        `computing ${percent(run.busy)} of the time`,
      ];
    if (room > 80 * u) pen.text(facts, plot.x + width, y, { size: 12.5, mono: true, room });
  }

  drawn(ctx, strength) {
    const { plot, theme, u, run } = this,
      pen = new Pen(ctx, theme, u),
      wide = this.x(run.length) - plot.x;
    pen.hatch(plot.x, plot.y, wide, plot.h, mix(theme.hatch, theme.panel, strength), 6);
    for (let n = 0; n < run.count; n++) this.mark(pen, n, strength);
  }

  mark(pen, n, strength) {
    const { run, theme } = this,
      [x, y, w, h] = this.place(n),
      color = run.colour(n, theme, this.model.owners[theme.name]),
      under = run.moves(n) ? mix(color, theme.panel, 0.55) : color,
      words = this.words(n),
      style = { size: 11.5, weight: 600, color: strength === 1 ? theme.ground : theme.muted };
    pen.box(x, y, Math.max(0.5, w - (w > 3 ? 0.8 : 0)), h, mix(under, theme.panel, strength), 2);
    if (words && h > 11 * pen.u && w > words.length * 7.5 * pen.u)
      pen.centered(words, x + w / 2, y + h / 2 + 4 * pen.u, style);
  }

  words(n) {
    const { run } = this,
      [kind, owner] = [run.kind[n], run.owner[n]];
    if (kind === run.merging) return "merge";
    if (kind === run.packing) return "pack";
    if (run.moves(n)) return "";
    if (owner !== NOBODY) return `K${subscript(owner)} V${subscript(owner)}`;
    if (run.groups > 1) return `heads ${run.round[n] + 1}/${run.groups}`;
    return run.gathers ? "all heads" : "its heads";
  }
}
