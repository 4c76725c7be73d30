// One row of Q below the picture: m, l, alpha and lse as numbers and as traces.

import { decimal, factor, sum } from "../canvas/format.js";
import { rowState } from "./row_state.js";

const NARROW = 600; // units: below it the numbers stand in two columns
const SHORT = 200; // units of width below which a number has room for few words
const KEPT = "kept in view; Esc follows again";
const LEAST = 90; // units of height that a number with its trace takes

/** A number of a row; what it is called where a softmax is online, where it takes whole rows, and in little room. */
const statistic = (key, sign, [online, whole, short], color, show) => ({
  ...{ key, sign, color, show },
  words: { online, whole, short },
});
const STATISTICS = [
  statistic("m", "m", ["running maximum", "maximum", "maximum"], "statistics", decimal),
  statistic("l", "ℓ", ["running sum", "sum", "sum"], "statistics", sum),
  statistic("alpha", "α", ["rescale factor", "nothing is rescaled", "rescale"], "O", factor),
  statistic("lse", "lse", ["m + log ℓ", "m + log ℓ", "m + log ℓ"], "S", decimal),
];

/** Of l and lse, what they are of while a tile is at work: m is known first, then α, and both at last. */
function duringTile(key, { now, done, m, alpha, l, before, next }) {
  if (now < 0 || m === before.m || (key !== "l" && key !== "lse")) return undefined;
  if (key === "lse") return done === now ? undefined : "m + log ℓ before this tile";
  if (before.l === 0) return undefined;
  const scaled = `α × ${sum(before.l)}`;
  if (done === now) return `${scaled} + ${sum(l - next.alpha * before.l)}`;
  return alpha === next.alpha ? `${scaled} before this tile` : "sum before this tile";
}

/** A rule, whose row it is, and what is said of it; how much of a line that takes. */
export function rowHeading(pen, box, what, { model, row, following, still }, kept = KEPT) {
  const { u } = pen,
    y = box.y + 24 * u;
  pen.rule(box.x, box.y, box.w);
  const where = following ? "follows the tile at work" : kept,
    facts = ["computed", `query tile ${model.blockOf(row)}`, where, ...(still ? [] : ["↑ ↓ choose"])],
    style = { size: 15, weight: 600, apart: 12 };
  return 24 * u + pen.heading(`Row ${model.rows[row]}, ${what}`, facts, box.x, y, box.w, style);
}

/** The panel below: a heading, and for each statistic its value now and its course over the key tiles. */
export class RowPanel {
  signature({ model, run, step, row, following }) {
    const { done, now, m, l, alpha } = rowState(model, run, step, row);
    return [row, done, now, m, l, alpha, following, run.name].join();
  }

  paint(pen, box, view) {
    const { model, run, step, row } = view,
      { u, theme } = pen;
    const state = rowState(model, run, step, row);
    const y = box.y + 24 * u,
      what = run.rows === "whole" ? "softmax over the whole row" : "online softmax",
      waits = run.keysOutside && !view.pinned,
      taken = rowHeading(pen, box, what, view, waits ? "waits in memory between its visits" : undefined);
    if (model.agreement) {
      const color = model.agrees ? theme.good : theme.bad;
      pen.right(model.agreement, box.x + box.w, y, { size: 12.5, color, room: box.w - taken });
    }
    const columns = box.w < NARROW * u ? 2 : STATISTICS.length,
      gap = 26 * u,
      w = (box.w - (columns - 1) * gap) / columns,
      h = (box.y + box.h - y - 8 * u) / (STATISTICS.length / columns);
    STATISTICS.forEach((statistic, n) => {
      const at = { x: box.x + (n % columns) * (w + gap), y: y + 8 * u + Math.floor(n / columns) * h, w, h };
      this.statistic(pen, at, view, state, statistic);
    });
  }

  statistic(pen, box, { model, run, row }, state, { key, sign, words, color, show }) {
    const { u, theme } = pen,
      tint = theme[color],
      y = box.y + 26 * u;
    const whole = run.rows === "whole",
      absent = whole && key === "alpha";
    const width = pen.text(sign, box.x, y, { size: 20, weight: 700, color: tint, mono: true }),
      taken = pen.value(show(state[key]), box.x + box.w, y);
    const said = box.w < SHORT * u ? words.short : (duringTile(key, state) ?? words[run.rows]);
    const room = box.w - width - taken - 14 * u;
    if (room > 7 * said.length * u) pen.note(said, box.x + width + 10 * u, y - 1 * u, { size: 13, room });
    if (box.h < LEAST * u) return;
    const plot = { x: box.x, y: y + 12 * u, w: box.w, h: box.h - 26 * u - 12 * u - 20 * u };
    pen.box(plot.x, plot.y, plot.w, plot.h, theme.panel, 5);
    const range =
      absent || state.last < state.first ? null : this.trace(pen, plot, model, row, state, key, tint, whole);
    const foot = plot.y + plot.h + 15 * u;
    const small = { size: 11.5, color: theme.muted };
    const ends = [state.first, Math.max(state.first, state.last)];
    if (run.reverse) ends.reverse();
    pen.text(`key tile ${ends[0]}`, box.x, foot, small);
    pen.right(String(ends[1]), box.x + box.w, foot, small);
    if (!range || box.w <= SHORT * u) return;
    const told =
      range[0] < range[1] ? `from ${show(range[0])} to ${show(range[1])}` : `always ${show(range[0])}`;
    pen.centered(told, box.x + box.w / 2, foot, small);
  }

  /** A step line over the key tiles that the row sees, in the order of their visits, up to now; its range is that of the whole row, so it never rescales. */
  trace(pen, plot, model, row, state, key, color, whole) {
    const { ctx, u, theme } = pen,
      count = state.last - state.first + 1,
      pitch = plot.w / count;
    if (pitch >= 6 * u) {
      ctx.fillStyle = theme.line;
      for (let n = 1; n < count; n++) ctx.fillRect(Math.round(plot.x + n * pitch), plot.y, 1, plot.h);
    }
    const values = Array.from(
      { length: count },
      (_, n) => model.after(row, model.run.reverse ? state.last - n : state.first + n)[key],
    );
    const finite = values.filter(Number.isFinite);
    let [low, high] = key === "alpha" ? [0, 1] : [Math.min(...finite), Math.max(...finite)];
    if (key === "l") low = 0;
    const range = finite.length && !whole ? [low, high] : null;
    if (!(high > low)) [low, high] = [low - 1, high + 1];
    const margin = 10 * u;
    const yOf = (value) => plot.y + plot.h - margin - ((value - low) / (high - low)) * (plot.h - 2 * margin);
    const latest = state.now >= 0 && state.now !== state.done ? state.now : state.done;
    const shown = model.run.reverse ? state.last - latest : latest - state.first;
    ctx.strokeStyle = color;
    ctx.lineWidth = 2.2 * u;
    ctx.lineJoin = "round";
    ctx.beginPath();
    let last = null;
    for (let n = 0; n <= shown; n++) {
      const value = whole || n === shown ? state[key] : values[n];
      if (!Number.isFinite(value)) continue;
      const x = plot.x + n * pitch,
        y = yOf(value);
      if (last === null) ctx.moveTo(x, y);
      else ctx.lineTo(x, y);
      ctx.lineTo(x + pitch, y);
      last = [x + pitch, y];
    }
    ctx.stroke();
    if (last) {
      ctx.fillStyle = color;
      ctx.beginPath();
      ctx.arc(Math.min(last[0], plot.x + plot.w - 4 * u), last[1], 4.5 * u, 0, 7);
      ctx.fill();
    }
    return range;
  }
}
