// Split keys: a row of tiles for each part, as each is a thread block of its own, and below them what the parts become.

import { clamp, grouped, plural } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { GridLayout } from "./grid_layout.js";
import { GridPainter } from "./grid_painter.js";
import { GridPanel, tileWords } from "./grid_panel.js";
import { NONE } from "./run.js";
import { drawnNote } from "./size_words.js";

const MERGED = 40; // units of height below the parts

/** The tiles as the parts have them: one row for each part, its first key tile at the left. */
function unrolled(model, run) {
  const { parts } = run,
    widths = parts.map(({ first, stop }) => Math.max(0, stop - first)),
    columns = Math.max(1, ...widths),
    { block_q, block_kv } = model.drawn,
    zeros = new Uint16Array(parts.length),
    stops = Uint16Array.from(widths);
  const drawn = { ...model.drawn, seq_q: parts.length * block_q, seq_kv: columns * block_kv, seen: [] };
  return Object.assign(Object.create(model), {
    drawn,
    arrays: { ...model.arrays, first: zeros, stop: stops, full_first: zeros, full_stop: stops },
    queryBlocks: parts.length,
    keyBlocks: columns,
    share: (row, column) => model.share(parts[row].i, parts[row].first + column) * parts.length,
  });
}

/** The first kernel's steps on those rows; after the last of them the parts stand complete. */
function onParts(run) {
  const steps = run.phase.indexOf(1),
    row = new Uint8Array(steps),
    column = new Uint8Array(steps);
  for (let s = 0; s < steps; s++) {
    row[s] = run.partAt(s);
    column[s] = run.key[s] === NONE ? NONE : run.key[s] - run.parts[row[s]].first;
  }
  const phases = [{ ...run.phases[0], leaves: "all" }];
  return Object.assign(Object.create(run), { query: row, key: column, steps, phases });
}

export class SplitGridPanel extends GridPanel {
  layout(box) {
    const { model, u, dpr, theme } = this,
      rows = unrolled(model, model.run);
    const room = { ...box, h: box.h - (44 + MERGED) * u };
    this.grid = new GridLayout(rows, room, { left: 64 * u, right: 76 * u }, u, dpr);
    this.grid.below = MERGED * u;
    this.painter = new GridPainter(rows, onParts(model.run), this.grid, theme, u);
  }

  pointed(x, y) {
    const { model } = this,
      { run } = model;
    return this.grid.pointed(x, y, (row, column) => {
      const { i, first, stop } = run.parts[row];
      return first + column < stop
        ? tileWords(model, run, i, first + column)
        : ["no key tile is left for it"];
    });
  }

  /** The row of the problem at a height. */
  rowAt(y) {
    const part = this.model.run.parts[this.grid.queryAt(y)];
    return part.i * this.model.drawn.block_q;
  }

  paint(pen, box, { model, run, step }) {
    const { grid, painter } = this,
      { u, theme } = pen,
      { steps } = painter.run;
    pen.centered(
      `K and V: ${plural(model.keyBlocks, "key tile")} in ${plural(run.parts.length, "part")}`,
      Math.max(grid.x0 + grid.w / 2, box.x + 110 * u),
      grid.y0 - 31 * u,
      { size: 13, weight: 600, color: theme.K },
    );
    pen.text("O, lse", grid.o.x, grid.y0 - 8 * u, { size: 13, weight: 600, color: theme.O });
    pen.right("Q", grid.q.x + grid.q.w, grid.y0 - 8 * u, { size: 13, weight: 600, color: theme.Q });
    painter.paint(pen, Math.min(step, steps), "");
    this.names(pen, run, step);
    this.merge(pen, run, step, steps);
    const y = grid.y0 + grid.h + grid.below + 19 * u,
      style = { size: 12.5, color: theme.muted },
      visited = Math.min(run.visitedBy(step), painter.run.visits);
    pen.text(
      `${grouped(visited)} tiles and merges of ${grouped(run.visits)}; parts run at the same time`,
      grid.x0,
      y,
      { ...style, room: box.x + box.w - grid.x0 },
    );
    if (model.scaled)
      pen.text(drawnNote(model), grid.x0, y + 18 * u, { ...style, weight: 600, color: theme.K });
  }

  /** The number of each part, of as many as there is room for. */
  names(pen, run, step) {
    const { grid } = this,
      { u, theme } = pen,
      now = run.partAt(step),
      every = Math.ceil((15 * u) / (grid.y[1] - grid.y[0]));
    run.parts.forEach((_, n) => {
      if (n % every && n !== now) return;
      const look = n === now ? { weight: 700, color: theme.ink } : { color: theme.muted };
      pen.right(String(n), grid.q.x - 8 * u, (grid.y[n] + grid.y[n + 1]) / 2 + 4 * u, { size: 12, ...look });
    });
  }

  /** The second kernel: all parts' O and lse become one O. */
  merge(pen, run, step, steps) {
    const { grid } = this,
      { u, theme } = pen,
      share = clamp((step - steps + 1) / (run.steps - steps), 0, 1),
      at = { x: grid.x0, y: grid.y0 + grid.h + 14 * u, w: grid.right - grid.x0, h: 22 * u };
    pen.text("O", grid.q.x - 4 * u, at.y + 16 * u, { size: 13, weight: 700, color: theme.O });
    pen.box(at.x, at.y, at.w, at.h, theme.cell, 3);
    pen.box(at.x, at.y, at.w * share, at.h, mix(theme.O, theme.ground, step >= run.steps ? 1 : 0.6), 3);
    const words = share ? "merged: each O weighed by exp(lse − m)" : "waits for all parts";
    pen.centered(words, at.x + at.w / 2, at.y + 15.5 * u, {
      size: 12,
      color: share ? theme.ink : theme.muted,
    });
  }
}
