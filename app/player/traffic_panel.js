// What the tiles have requested from L2, and what of that has crossed HBM, each beside another run.

import { grouped, traffic } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { compared } from "./size_words.js";

/** The two places where bytes are told apart: one of them is counted, the other modelled. */
export const LEVELS = [
  { level: "requested", title: "Requested from L2", origin: "counted" },
  { level: "crossing", title: "Crosses HBM", origin: "modelled" },
];
const GROUP = 92,
  ROW = 30; // units of height: a heading with two bars, and a bar

const wholeOf = (run, level) => (level === "requested" ? run.total : run[level]);

export class TrafficPanel {
  /** The run in view and what it stands beside: [title, run or totals, step], where those have steps. */
  rows({ model, run, step }) {
    const { against } = model,
      other = model.runs[against.name],
      share = run.time ? run.timeAt(step) / run.time : 0,
      at = step < 0 ? -1 : step >= run.steps ? other?.steps : other?.stepAt(share * other.time);
    return [
      [run.title, run, step],
      [against.title, other ?? against, at],
    ];
  }

  paint(pen, box, view) {
    const { model, run } = view,
      { against, mostTraffic: most } = model,
      { u, theme } = pen,
      right = box.x + box.w,
      narrow = box.w < 310 * u,
      rows = this.rows(view);
    LEVELS.forEach(({ level, title, origin }, n) => {
      const y = box.y + (16 + GROUP * n) * u,
        width = pen.text(title, box.x, y, { size: narrow ? 12 : 13, weight: 600 }),
        least = narrow ? "≥ " : "at least ",
        bound = against.least && level === "requested" ? least : "",
        told = run.unfused ? "" : bound + compared(wholeOf(run, level), wholeOf(against, level)),
        words = box.w - width > 7.5 * told.length * u ? told : "",
        taken = width + pen.right(words, right, y, { size: 12, weight: 700 });
      if (box.w - taken > (7 * origin.length + 14) * u)
        pen.text(origin, box.x + width + 6 * u, y, { size: 11.5, color: n ? theme.muted : theme.good });
      rows.forEach(([title, other, step], row) => {
        const area = { x: box.x, y: y + (7 + ROW * row) * u, w: box.w };
        amountBar(pen, area, { title, run: other, step, level, most, strong: row === 0 });
      });
    });
    this.foot(pen, box, model);
  }

  /** What all heads move; where only a part is drawn, at the full length. */
  foot(pen, box, { asked, all, scaled }) {
    const moved = `${traffic(all.requested)} and ${traffic(all.crossing)}`,
      heads = asked.heads === 1 ? "the head" : `all ${grouped(asked.heads)}`,
      words = scaled ? `Whole, ${heads}: ${moved}` : `One head; ${heads}: ${moved}`;
    if (scaled || asked.heads > 1) pen.note(words, box.x, box.y + (2 * GROUP + 12) * pen.u, { room: box.w });
  }
}

/** One run's bytes of a level: solid so far, pale to its total; written is striped as well as orange. A run without steps has totals alone. */
export function amountBar(pen, { x, y, w }, { title, run, step, level, most, strong = true }) {
  const { u, theme } = pen,
    moving = run.moved !== undefined,
    whole = wholeOf(run, level),
    [read, written] = moving ? [run.readAt(step, level), run.writtenAt(step, level)] : [0, 0],
    base = y + 13 * u,
    of = { size: 11.5, mono: true, color: moving ? theme.muted : theme.ink },
    sum = { size: 13, weight: strong ? 700 : 400, mono: true },
    look = strong ? { weight: 600 } : { color: theme.muted },
    total = pen.right(`${moving ? " of " : ""}${traffic(whole)}`, x + w, base, of),
    number = moving ? pen.right(traffic(read + written), x + w - total, base, sum) : 0;
  pen.text(title, x, base, { size: 12, ...look, room: w - total - number - 8 * u });
  const [h, top, scale] = [8 * u, y + 18 * u, w / most],
    from = x + read * scale + (read * scale > 2 && written ? 1 : 0);
  pen.box(x, top, w, h, theme.panel, 3);
  pen.box(x, top, Math.max(2, whole * scale), h, theme.cell, 3);
  pen.box(x, top, read * scale, h, theme.Q, 3);
  pen.box(from, top, written * scale, h, theme.O, 3);
  if (written * scale >= 3) pen.hatch(from, top, written * scale, h, mix(theme.ground, theme.O, 0.35), 5 * u);
}
