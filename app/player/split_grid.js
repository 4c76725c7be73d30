// Split keys: a row of tiles for each part, as each is a thread block of its own, and below them what the parts become.

import { clamp, grouped, plural } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { GridLayout } from "./grid_layout.js";
import { GridPanel } from "./grid_panel.js";
import { NONE } from "./run.js";

const MERGED = 40; // units of height below the parts

/** The tiles as the parts have them: one row for each part, its first key tile at the left. */
function unrolled(model, { parts }) {
  const widths = parts.map(({ first, stop }) => Math.max(0, stop - first)),
    columns = Math.max(1, ...widths),
    { block_q, block_kv } = model.drawn,
    zeros = new Uint16Array(parts.length),
    stops = Uint16Array.from(widths);
  return Object.assign(Object.create(model), {
    drawn: { ...model.drawn, seq_q: parts.length * block_q, seq_kv: columns * block_kv, seen: [] },
    arrays: { ...model.arrays, first: zeros, stop: stops, full_first: zeros, full_stop: stops },
    queryBlocks: parts.length,
    keyBlocks: columns,
    share: (row, column) => model.share(parts[row].i, parts[row].first + column) * parts.length,
  });
}

/** The first kernel's steps on those rows; after the last of them the parts stand complete. */
function onParts(run) {
  const steps = run.phase.indexOf(1),
    row = Uint8Array.from({ length: steps }, (_, s) => run.partAt(s)),
    column = row.map((part, s) => (run.key[s] === NONE ? NONE : run.key[s] - run.parts[part].first)),
    phases = [{ ...run.phases[0], leaves: "all" }];
  return Object.assign(Object.create(run), { query: row, key: column, steps, phases });
}

export class SplitGridPanel extends GridPanel {
  layout(box) {
    const { model, u, dpr } = this,
      rows = unrolled(model, model.run),
      room = { ...box, h: box.h - (44 + MERGED) * u };
    this.place(new GridLayout(rows, room, { left: 64 * u, right: 76 * u }, u, dpr), rows, onParts(model.run));
    this.grid.below = MERGED * u;
  }

  paint(pen, box, { model, run, step }) {
    const { grid, painter, u, theme } = this,
      { steps } = painter.run,
      y = grid.y0 + grid.h + grid.below + 19 * u,
      visited = grouped(Math.min(run.visitedBy(step), run.visits)),
      name = (color) => ({ size: 13, weight: 600, color });
    this.keyTitle(
      pen,
      box,
      `${plural(model.keyBlocks, "key tile")} in ${plural(run.parts.length, "part")}`,
      110,
    );
    pen.text("O, lse", grid.o.x, grid.y0 - 8 * u, name(theme.O));
    pen.right("Q", grid.q.x + grid.q.w, grid.y0 - 8 * u, name(theme.Q));
    painter.paint(pen, Math.min(step, steps), "");
    this.names(pen, run, step);
    this.merge(pen, run, step, steps);
    const told = `${visited} tiles and merges of ${grouped(run.visits)}; parts run at the same time`;
    pen.note(told, grid.x0, y, { room: box.x + box.w - grid.x0 });
    if (model.scaled) this.drawnNote(pen, model, y);
  }

  /** The number of each part, of as many as there is room for. */
  names(pen, run, step) {
    const { y, q } = this.grid,
      { u, theme } = pen,
      now = run.partAt(step),
      every = Math.ceil((15 * u) / (y[1] - y[0]));
    run.parts.forEach((_, n) => {
      if (n % every && n !== now) return;
      const look = n === now ? { weight: 700, color: theme.ink } : { color: theme.muted };
      pen.right(String(n), q.x - 8 * u, (y[n] + y[n + 1]) / 2 + 4 * u, { size: 12, ...look });
    });
  }

  /** The second kernel: all parts' O and lse become one O. */
  merge(pen, run, step, steps) {
    const { x0: x, y0, h, q, right } = this.grid,
      { u, theme } = pen,
      share = clamp((step - steps + 1) / (run.steps - steps), 0, 1),
      [y, w] = [y0 + h + 14 * u, right - x],
      words = share ? "merged: each O weighed by exp(lse − m)" : "waits for all parts",
      style = { size: 12, color: share ? theme.ink : theme.muted };
    pen.text("O", q.x - 4 * u, y + 16 * u, { size: 13, weight: 700, color: theme.O });
    pen.box(x, y, w, 22 * u, theme.cell, 3);
    pen.box(x, y, w * share, 22 * u, mix(theme.O, theme.ground, step >= run.steps ? 1 : 0.6), 3);
    pen.centered(words, x + w / 2, y + 15.5 * u, style);
  }
}
