// The grid with its titles and captions, as the single player shows it.

import { clamp, grouped, plural } from "../canvas/format.js";
import { NUMBERED } from "./grid_layers.js";
import { GridLayout } from "./grid_layout.js";
import { GridPainter } from "./grid_painter.js";
import { drawnNote } from "./size_words.js";

const WORD = 58, // units of a token's text beside the tiles,
  ROOMY = 300; // of a box that has room for it

export class GridPanel {
  words = 0; // of room for tokens

  layout(box) {
    const { model, u } = this;
    this.words = model.tokens && Math.min(box.w, box.h) > ROOMY * u ? WORD * u : 0;
    const sides = { left: 44 * u + this.words, right: 44 * u, above: this.words };
    this.place(new GridLayout(model, { ...box, h: box.h - 44 * u }, sides, u, this.dpr));
  }

  place(grid, model = this.model, run = model.run, Painter = GridPainter) {
    Object.assign(this, { grid, painter: new Painter(model, run, grid, this.theme, this.u) });
  }

  paint(pen, box, { model, run, step, row, flaw }) {
    this.titles(pen, box, model);
    this.queryTitle(pen, model);
    this.painter.paint(pen, step, flaw);
    this.rowMark(pen, model, row);
    if (this.words) this.tokens(pen, model);
    this.captions(pen, box, model, run, step);
  }

  titles(pen, box, model) {
    this.keyTitle(pen, box, plural(model.keyBlocks, "key tile"), 95);
    pen.above("O", this.grid.o, this.grid.y0, pen.theme.O);
  }

  keyTitle(pen, box, tiles, least) {
    const { x0, y0, w } = this.grid,
      { u, theme } = pen,
      style = { size: 13, weight: 600, color: theme.K };
    pen.centered(
      `K and V: ${tiles}`,
      Math.max(x0 + w / 2, box.x + least * u),
      y0 - 31 * u - this.words,
      style,
    );
  }

  /** Along the side, or just "Q" above where the side is too short. */
  queryTitle(pen, model) {
    const { h, q, y0, mark } = this.grid,
      { u, theme } = pen,
      style = { size: 13, weight: 600, color: theme.Q, align: "center" },
      words = `Q: ${plural(model.queryBlocks, "query tile")}`;
    if (h < 120 * u) pen.text("Q", q.x + q.w / 2, y0 - 8 * u, style);
    else pen.upwards(words, mark - 13 * u - this.words, y0 + h / 2, style);
  }

  /** The text of every key above its column, and of every query beside its row. */
  tokens(pen, { tokens, drawn }) {
    const { x0, y0, mark, perKey, perQuery } = this.grid,
      { u, theme } = pen,
      size = clamp(Math.min(perKey, perQuery) / u, 7, 12),
      style = { size, color: theme.muted, room: WORD * u },
      middle = (n, pitch) => (n + 0.5) * pitch + 0.35 * size * u;
    tokens.forEach((words, key) => pen.upwards(words, x0 + middle(key, perKey), y0 - 28 * u, style));
    tokens
      .slice(-drawn.seq_q)
      .forEach((words, row) => pen.right(words, mark - 8 * u, y0 + middle(row, perQuery), style));
  }

  /** A mark at the chosen row, so that the numbers below have a place in the picture. */
  rowMark(pen, model, row) {
    const { y0, perQuery, mark } = this.grid,
      y = y0 + (model.rows[row] + 0.5) * perQuery,
      { ctx, u, theme } = pen;
    ctx.fillStyle = theme.statistics;
    ctx.beginPath();
    ctx.moveTo(mark - 5 * u, y - 4 * u);
    ctx.lineTo(mark - 1 * u, y);
    ctx.lineTo(mark - 5 * u, y + 4 * u);
    ctx.fill();
  }

  captions(pen, box, model, run, step) {
    const { grid, u, theme } = this,
      y = grid.y0 + grid.h + grid.below + 19 * u,
      style = { size: 12.5, color: theme.muted },
      skipped = model.queryBlocks * model.keyBlocks - model.visible,
      visited = grouped(run.visitedBy(step)),
      left =
        run.phases.length > 1
          ? `${visited} of ${grouped(run.visits)} visits in ${run.phases.length} kernels`
          : `${visited} of ${plural(run.visits, "tile")} visited`,
      why = run.visitsHidden ? "wasted: computed, then masked" : "skipped by the mask",
      right = skipped ? `${grouped(skipped)} ${why}` : "",
      edge = Math.min(box.x + box.w, Math.max(grid.right, grid.x0 + 370 * u)),
      room = edge - grid.x0 - pen.text(left, grid.x0, y, style) - 12 * u,
      fitting = [right, right.split(" ", 2).join(" ")].find(({ length }) => room >= 7 * length * u);
    if (fitting) pen.right(fitting, edge, y, style);
    if (model.scaled) this.drawnNote(pen, model, y);
    else if (grid.side >= NUMBERED * u && !model.backward)
      pen.text("%: the tile's share of its rows' weights", grid.x0, y + 18 * u, { ...style, room: box.w });
  }

  drawnNote(pen, model, y) {
    const style = { size: 12.5, weight: 600, color: pen.theme.K };
    pen.text(drawnNote(model), this.grid.x0, y + 18 * pen.u, style);
  }
}
