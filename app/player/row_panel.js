// One row of Q below the picture: m, l, alpha and lse as numbers and as traces.

import { decimal, factor, sum } from "../canvas/format.js";
import { rowState } from "./row_state.js";

const NARROW = 600; // units: below it the numbers stand in two columns
const SHORT = 200; // units of width below which a number has room for few words
const LEAST = 90; // units of height that a number with its trace takes

// The numbers of a row: what each is called where a softmax is online, where it takes whole rows, and in little room.
const STATISTICS = [
  ["m", "m", "statistics", decimal, ["running maximum", "maximum", "maximum"]],
  ["l", "ℓ", "statistics", sum, ["running sum", "sum", "sum"]],
  ["alpha", "α", "O", factor, ["rescale factor", "nothing is rescaled", "rescale"]],
  ["lse", "lse", "S", decimal, ["m + log ℓ", "m + log ℓ", "m + log ℓ"]],
].map(([key, sign, color, show, words]) => ({ key, sign, color, show, words }));

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
export function rowHeading(pen, box, what, { model, row, following }, kept = "as the link has it") {
  const { u } = pen,
    where = following ? "follows the tile at work" : kept,
    facts = ["computed", `query tile ${model.blockOf(row)}`, where],
    style = { size: 15, weight: 600, apart: 12 };
  pen.rule(box.x, box.y, box.w);
  return 24 * u + pen.heading(`Row ${model.rows[row]}, ${what}`, facts, box.x, box.y + 24 * u, box.w, style);
}

/** A sign, what is said of it and its value now; where there is room, an empty plot over key tiles, which it returns. */
export function numberOf(pen, { x, y, w, h }, { sign, color, said, value }, [first, last]) {
  const { u, theme } = pen,
    base = y + 26 * u,
    width = pen.text(sign, x, base, { size: 20, weight: 700, color, mono: true }),
    room = w - width - pen.value(value, x + w, base) - 14 * u;
  if (room > 7 * said.length * u) pen.note(said, x + width + 10 * u, base - u, { size: 13, room });
  if (h < LEAST * u) return null;
  const plot = { x, y: base + 12 * u, w, h: h - 58 * u },
    foot = plot.y + plot.h + 15 * u,
    small = { size: 11.5, color: theme.muted };
  pen.box(plot.x, plot.y, plot.w, plot.h, theme.panel, 5);
  pen.text(`key tile ${first}`, x, foot, small);
  pen.right(String(last), x + w, foot, small);
  return plot;
}

/** The panel below: a heading, and for each statistic its value now and its course over the key tiles. */
export class RowPanel {
  paint(pen, box, view) {
    const { model, run, step, row } = view,
      { u, theme } = pen,
      state = rowState(model, run, step, row),
      y = box.y + 24 * u,
      what = run.rows === "whole" ? "softmax over the whole row" : "online softmax",
      waits = run.keysOutside && !view.pinned,
      taken = rowHeading(pen, box, what, view, waits ? "waits in memory between its visits" : undefined),
      style = { size: 12.5, color: model.agrees ? theme.good : theme.bad, room: box.w - taken };
    if (model.agreement) pen.right(model.agreement, box.x + box.w, y, style);
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
    const whole = run.rows === "whole",
      said = box.w < SHORT * pen.u ? words[2] : (duringTile(key, state) ?? words[Number(whole)]),
      ends = [state.first, Math.max(state.first, state.last)];
    if (run.reverse) ends.reverse();
    const plot = numberOf(pen, box, { sign, color: pen.theme[color], said, value: show(state[key]) }, ends);
    if (plot && !(whole && key === "alpha") && state.last >= state.first)
      this.trace(pen, plot, model, row, state, key, pen.theme[color], whole);
  }

  /** A step line over the key tiles that the row sees, in the order of their visits, up to now; its range is that of the whole row, so it never rescales. */
  trace(pen, plot, model, row, state, key, color, whole) {
    const { ctx, u, theme } = pen,
      { reverse } = model.run,
      count = state.last - state.first + 1,
      pitch = plot.w / count;
    ctx.fillStyle = theme.line;
    for (let n = 1; n < count && pitch >= 6 * u; n++)
      ctx.fillRect(Math.round(plot.x + n * pitch), plot.y, 1, plot.h);
    const tile = (n) => (reverse ? state.last - n : state.first + n),
      values = Array.from({ length: count }, (_, n) => model.after(row, tile(n))[key]),
      finite = values.filter(Number.isFinite);
    let [low, high] = key === "alpha" ? [0, 1] : [Math.min(...finite), Math.max(...finite)];
    if (key === "l") low = 0;
    if (!(high > low)) [low, high] = [low - 1, high + 1];
    const margin = 10 * u,
      yOf = (value) => plot.y + plot.h - margin - ((value - low) / (high - low)) * (plot.h - 2 * margin),
      latest = state.now >= 0 && state.now !== state.done ? state.now : state.done,
      shown = reverse ? state.last - latest : latest - state.first,
      points = [];
    for (let n = 0; n <= shown; n++) {
      const value = whole || n === shown ? state[key] : values[n],
        x = plot.x + n * pitch;
      if (Number.isFinite(value)) points.push(x, yOf(value), x + pitch, yOf(value));
    }
    pen.line(points, color, 2.2 * u);
    const [x, y] = points.slice(-2);
    if (points.length) pen.dot(Math.min(x, plot.x + plot.w - 4 * u), y, 4.5 * u, color);
  }
}
