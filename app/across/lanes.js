// A run as a chart: every GPU has a line, computing above and transfers below, in the colour of whose keys they are.

import { duration, percent, subscript } from "../canvas/format.js";
import { LaneChart } from "../canvas/lane_chart.js";
import { Pen } from "../canvas/pen.js";
import { mix } from "../canvas/theme.js";
import { NOBODY } from "./run.js";
import { markWords } from "./story.js";

const PALE = 0.26; // of what is still to come
const MOVES = 0.36; // of a line's height, for transfers

export class LanesPanel extends LaneChart {
  follows = ["time", "shown"];

  layout(box) {
    const { model, u } = this,
      left = 52 * u,
      top = 24 * u,
      axis = this.lowest ? 24 * u : 8 * u;
    this.run = model.runs[this.number];
    this.plot = { x: box.x + left, y: box.y + top, w: box.w - left - 8 * u, h: box.h - top - axis };
    this.high = this.plot.h;
    this.row = this.plot.h / model.gpus;
  }

  /** Where the mark at a point lies, and its words. */
  pointed(px, py) {
    if (!this.holds(px, py)) return null;
    const place = (py - this.plot.y) / this.row,
      gpu = Math.floor(place),
      n = this.run.markAt(gpu, place - gpu > 1 - MOVES, this.timeAt(px));
    return n < 0 ? null : [this.place(n), () => markWords(this.run, n)];
  }

  /** Where a mark lies: [x, y, width, height]. */
  place(n) {
    const { run, row, plot } = this,
      gap = row > 9 ? 1.5 : row > 4 ? 0.6 : 0,
      high = row - gap,
      moves = run.moves(n);
    const y = plot.y + run.gpu[n] * row + (moves ? (1 - MOVES) * high : 0),
      x = this.x(run.start[n]);
    return [
      x,
      y,
      Math.max(0.5, this.x(run.end[n]) - x),
      high * (moves ? MOVES : 1 - MOVES) - (row > 9 ? 1 : 0),
    ];
  }

  paint(pen, box, { time, shown }) {
    const { plot, run } = this,
      { u, theme, ctx } = pen;
    this.title(pen, box, shown === this.number);
    const cut = this.cutTogether(ctx, time, undefined, [1], [PALE]);
    const each = Math.max(1, Math.ceil((12 * u) / this.row));
    for (let gpu = 0; gpu < this.model.gpus; gpu += each)
      pen.right(
        `GPU ${gpu}`,
        plot.x - 6 * u,
        plot.y + gpu * this.row + Math.min(this.row * 0.5 + 4 * u, 12 * u),
        { size: 11.5, color: theme.muted, mono: true },
      );
    const end = this.x(run.length);
    ctx.fillStyle = theme.muted;
    ctx.fillRect(end, plot.y, 1, plot.h);
    const whole = [0, this.model.longest];
    if (this.lowest) this.ticks(pen, whole, 90, (tick) => duration(tick / 1e6), "left");
    this.playhead(pen, cut, 2 * u);
  }

  title(pen, box, shown) {
    const { run, plot } = this,
      { u, theme } = pen,
      y = box.y + 15 * u;
    const color = shown ? theme.ink : theme.muted,
      width = pen.text(run.name, plot.x, y, { size: 14, weight: 650, color });
    const facts = [
      duration(run.length / 1e6),
      `efficiency ${percent(run.efficiency)}`,
      `computing ${percent(run.busy)} of the time`,
    ];
    const beside = { size: 12.5, color: theme.good, room: Math.max(1, plot.w - width - 12 * u), whole: true },
      origin = pen.right(run.origin, plot.x + plot.w, y, beside),
      room = plot.w - width - origin - 30 * u;
    if (room > 80 * u) pen.text(facts, plot.x + width + 12 * u, y, { size: 12.5, mono: true, room });
  }

  drawn(ctx, strength) {
    const { plot, theme, u, run } = this,
      pen = new Pen(ctx, theme, u);
    pen.hatch(
      plot.x,
      plot.y,
      this.x(run.length) - plot.x,
      plot.h,
      mix(theme.hatch, theme.panel, strength),
      6,
    );
    for (let n = 0; n < run.count; n++) this.mark(pen, n, strength);
  }

  mark(pen, n, strength) {
    const { run, theme } = this,
      [x, y, w, h] = this.place(n),
      color = this.color(n),
      under = run.moves(n) ? mix(color, theme.panel, 0.55) : color;
    pen.box(x, y, Math.max(0.5, w - (w > 3 ? 0.8 : 0)), h, mix(under, theme.panel, strength), 2);
    const words = this.words(n),
      ink = strength === 1 ? theme.ground : theme.muted;
    if (words && h > 11 * pen.u && w > words.length * 7.5 * pen.u)
      pen.centered(words, x + w / 2, y + h / 2 + 4 * pen.u, { size: 11.5, weight: 600, color: ink });
  }

  color(n) {
    const { run, theme, model } = this;
    if (run.kind[n] === run.merging) return theme.O;
    if (run.kind[n] === run.packing) return theme.Q;
    if (run.owner[n] === NOBODY) return run.moves(n) ? theme.V : theme.S;
    return model.owners[theme.name][run.owner[n]];
  }

  words(n) {
    const { run } = this;
    if (run.kind[n] === run.merging) return "merge";
    if (run.kind[n] === run.packing) return "pack";
    if (run.owner[n] === NOBODY) return run.moves(n) ? "" : `heads ${run.round[n] + 1}/${run.groups}`;
    return run.moves(n) ? "" : `K${subscript(run.owner[n])} V${subscript(run.owner[n])}`;
  }
}
