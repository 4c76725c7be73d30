// One canvas, one clock: inside one block of threads, its lanes over time.

import { capital, duration, subscript } from "../canvas/format.js";
import { LaneChart } from "../canvas/lane_chart.js";
import { merged, Spans } from "../canvas/spans.js";
import { NARROW } from "../canvas/stage.js";
import { mix } from "../canvas/theme.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { unpack } from "../canvas/unpack.js";
import { showing } from "../canvas/view.js";

const FIRST_LOOK = 2; // the first group's softmax, counted from 0, in whose middle the playhead stands at first
const ROW = 25, // units from a row to the next,
  GAP = 14, // of what is left free below a lane,
  [ABOVE, BELOW] = [24, 22]; // and of the colours above all rows and the ticks below
const BAR = {
  label: "Inside one thread block over time",
  guide: {
    bar: "one operation, in the colour of the tensor that it brings or makes; its number is the key block's",
    busy: "when a unit of the SM is at work for any of them",
  },
};

/** What the table of operations calls a mark of a key block: "Q K₇ᵀ", "softmax of S₇". */
const named = (pattern, key) => pattern.replace("{}", key < 0 ? "" : subscript(key));

/** The lanes of a block as rows, each a number of units below the first; marks are [operation, key block, start, end]. */
class Block {
  constructor(bytes) {
    const { header } = unpack(bytes);
    Object.assign(this, header, { longest: header.seconds, rows: [] });
    let y = 0;
    for (const { name, short, rows, marks } of this.lanes) {
      rows.forEach((label, n) => {
        const own = marks.filter(([operation]) => this.operations[operation].row === label);
        this.rows.push({ y, label, marks: own, ...(!n && { name, short }) });
        y += ROW;
      });
      y += GAP;
    }
    const groups = this.lanes.slice(1).flatMap(({ marks }) => marks);
    for (const [short, color, busy] of this.busy) {
      const own = groups.filter(([operation]) => busy.includes(operation)),
        spans = merged(own.map((mark) => mark.slice(2))).map((span) => [null, 0, ...span]);
      this.rows.push({ y, name: `${short} busy`, short, color, marks: spans });
      y += ROW;
    }
    this.height = y;
    const [start, end] = [2, 3].map((at) => this.rows.flatMap(({ marks }) => marks.map((mark) => mark[at])));
    this.spans = new Spans({}, { start, end });
  }

  /** When softmax and products are under way at once. */
  get first() {
    const softmax = this.rows.find(({ label, marks }) => label === "softmax" && marks.length).marks,
      [, , start, end] = softmax[Math.min(FIRST_LOOK, softmax.length - 1)];
    return (start + end) / 2;
  }
}

/** What all lanes do at a moment; the first copies, the others compute. */
export function sentenceAt({ lanes, operations }, seconds) {
  return lanes
    .map(({ short, marks }, lane) => {
      const now = marks.filter(([, , start, end]) => seconds >= start && seconds < end),
        called = (field) => now.map(([operation, key]) => named(operations[operation][field], key));
      if (lane) return `${capital(short)}: ${[...new Set(called("deed"))].join(" and ") || "waiting"}.`;
      return now.length ? `Copies in flight: ${called("name").join(", ")}.` : "No copy in flight.";
    })
    .join(" ");
}

class BlockPanel extends LaneChart {
  lined = true;
  small = 12;

  layout(box) {
    const { u, model } = this,
      [above, below] = [ABOVE * u, BELOW * u],
      h = box.h - above - below;
    this.narrow = box.w < NARROW * u;
    const left = (this.narrow ? 96 : 176) * u;
    this.plot = { x: box.x + left, y: box.y + above, w: box.w - left - 8 * u, h };
    this.high = h;
    this.row = h / model.height; // px of a unit of the rows
  }

  /** Where a mark of a row lies. */
  place({ y }, [, , start, end]) {
    const x = this.x(start);
    return [x, this.plot.y + y * this.row, Math.max(1, this.x(end) - x - 1), 0.94 * ROW * this.row];
  }

  paint(pen, box, { time }) {
    const { model, plot, narrow, u, theme } = this,
      next = this.x(model.switch);
    this.ticks(pen, 95, duration);
    pen.line([next, plot.y - 6 * u, next, plot.y + plot.h], theme.muted, 1, [4 * u, 4 * u]);
    pen.centered("next tile", next, box.y + 12 * u, { size: 12, color: theme.muted });
    this.colours(pen, box, next - 38 * u);
    const size = Math.min(12, (0.95 * ROW * this.row) / u); // of words in low rows
    for (const row of model.rows) {
      const base = plot.y + (row.y + 0.62 * ROW) * this.row;
      pen.text((narrow ? row.short : row.name) ?? "", box.x, base, { size, weight: 600 });
      if (row.label && !narrow) pen.right(row.label, plot.x - 8 * u, base, { size, color: theme.muted });
      for (const mark of row.marks) this.mark(pen, row, mark, time);
    }
    this.playhead(pen, this.x(time), 5 * u);
  }

  /** The colour of the tensor that a mark brings or makes; a store is pale. */
  mark(pen, row, mark, time) {
    const { u, theme } = pen,
      { operations, outlined } = this.model,
      [operation, key, start, end] = mark,
      [x, y, w, h] = this.place(row, mark);
    if (!operation) return pen.box(x, y, w, h, theme[row.color], 2.5);
    const { colour, made } = operations[operation],
      color = theme[colour],
      stored = operation === outlined,
      words = named(made, key),
      copied = operation === row.label, // several are under way at once: the name stands where each begins
      size = Math.min(12, (0.85 * h) / u);
    pen.box(x, y, w, h, stored ? mix(this.fill(color), theme.ground, 0.25) : this.fill(color), 2.5);
    pen.frame(x, y, w, h, stored ? color : theme.ground, 1, 2.5);
    if (time >= start && time < end) pen.frame(x, y, w, h, theme.edge, 1.5 * u, 2.5);
    if (w > (0.62 * size * words.length + 3) * u && size > 8.5)
      pen.text(words, copied ? x + 6 * u : x + w / 2, y + h / 2 + 0.36 * size * u, {
        ...{ size, align: copied ? "left" : "center" },
      });
  }

  fill(color) {
    return mix(color, this.theme.ground, this.theme.name === "dark" ? 0.62 : 0.5);
  }

  /** What the colours of a warp group's marks stand for, as narrow ones have no room for a name. */
  colours(pen, box, room) {
    const { u, theme } = pen;
    let x = box.x;
    for (const { colour, legend } of Object.values(this.model.operations)) {
      const wide = legend && (7.6 * legend.length + 26) * u;
      if (!legend || x + wide > room) continue; // it would reach what stands beside it
      pen.box(x, box.y + 3 * u, 10 * u, 10 * u, this.fill(theme[colour]), 2);
      pen.text(legend, x + 14 * u, box.y + 12 * u, { size: 12, color: theme.muted });
      x += wide;
    }
  }
}

class InsidePlayer extends TimedPlayer {
  static bar = BAR;
  static Model = Block;

  load(part) {
    super.load(part);
    this.root.style.setProperty("--tall", ABOVE + this.model.height + BELOW);
  }

  layout() {
    const { width: w, height: h } = this.stage;
    return [[BlockPanel, { x: 0, y: 0, w, h: Math.min(h, 1.4 * this.stage.u * (this.model.height + 46)) }]];
  }

  moment() {
    const { at: time, model } = this;
    return {
      view: { time },
      sentence: this.standing(() => sentenceAt(model, time)),
      where: `${duration(time)} of ${duration(model.longest)}`,
      length: "modelled",
    };
  }
}

export default showing(InsidePlayer);
