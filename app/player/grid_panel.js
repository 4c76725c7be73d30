// The grid with its titles and captions, as the single player shows it.

import { clamp, grouped, percent, plural, traffic } from "../canvas/format.js";
import { NUMBERED } from "./grid_layers.js";
import { GridLayout } from "./grid_layout.js";
import { GridPainter } from "./grid_painter.js";
import { drawnNote } from "./size_words.js";

const WORD = 58, // units of a token's text beside the tiles,
  ROOMY = 300; // of a box that has room for it

export class GridPanel {
  follows = ["run", "step", "row", "flaw"];

  layout(box) {
    const { model, u, dpr, theme } = this,
      above = model.tokens && Math.min(box.w, box.h) > ROOMY * u ? WORD * u : 0,
      sides = { left: 44 * u + above, right: 44 * u, above };
    this.grid = new GridLayout(model, { ...box, h: box.h - 44 * u }, sides, u, dpr);
    this.words = above;
    this.painter = new GridPainter(model, model.run, this.grid, theme, u);
  }

  /** The row of the problem at a height within the tiles. */
  rowAt(y) {
    return Math.floor((y - this.grid.y0) / this.grid.perQuery);
  }

  /** Where the tile at a point lies, and its words. */
  pointed(x, y) {
    const { model, run } = this.painter;
    return this.grid.pointed(x, y, (i, j) => tileWords(model, run, i, j));
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
    this.keyTitle(pen, box, model);
    pen.above("O", this.grid.o, this.grid.y0, pen.theme.O);
  }

  keyTitle(pen, box, model) {
    const { grid } = this,
      { u, theme } = pen;
    pen.centered(
      `K and V: ${plural(model.keyBlocks, "key tile")}`,
      Math.max(grid.x0 + grid.w / 2, box.x + 95 * u),
      grid.y0 - 31 * u - (this.words ?? 0),
      { size: 13, weight: 600, color: theme.K },
    );
  }

  /** Along the side, or just "Q" above where the side is too short. */
  queryTitle(pen, model) {
    const { grid } = this,
      { u, theme } = pen,
      style = { size: 13, weight: 600, color: theme.Q, align: "center" };
    if (grid.h < 120 * u) return pen.text("Q", grid.q.x + grid.q.w / 2, grid.y0 - 8 * u, style);
    const words = `Q: ${plural(model.queryBlocks, "query tile")}`;
    pen.upwards(words, grid.mark - 13 * u - (this.words ?? 0), grid.y0 + grid.h / 2, style);
  }

  /** The text of every key above its column, and of every query beside its row. */
  tokens(pen, { tokens, drawn }) {
    const { x0, y0, mark, perKey, perQuery } = this.grid,
      { u, theme } = pen,
      size = clamp(Math.min(perKey, perQuery) / u, 7, 12),
      style = { size, color: theme.muted, room: WORD * u };
    tokens.forEach((words, key) =>
      pen.upwards(words, x0 + (key + 0.5) * perKey + 0.35 * size * u, y0 - 28 * u, style),
    );
    tokens
      .slice(-drawn.seq_q)
      .forEach((words, row) =>
        pen.right(words, mark - 8 * u, y0 + (row + 0.5) * perQuery + 0.35 * size * u, style),
      );
  }

  /** A mark at the chosen row, so that the numbers below have a place in the picture. */
  rowMark(pen, model, row) {
    const { grid } = this,
      y = grid.y0 + (model.rows[row] + 0.5) * grid.perQuery,
      { ctx, u, theme } = pen;
    ctx.fillStyle = theme.statistics;
    ctx.beginPath();
    ctx.moveTo(grid.mark - 5 * u, y - 4 * u);
    ctx.lineTo(grid.mark - 1 * u, y);
    ctx.lineTo(grid.mark - 5 * u, y + 4 * u);
    ctx.fill();
  }

  captions(pen, box, model, run, step) {
    const { grid } = this,
      { u, theme } = pen,
      y = grid.y0 + grid.h + grid.below + 19 * u;
    const all = model.queryBlocks * model.keyBlocks,
      style = { size: 12.5, color: theme.muted };
    const visited = run.visitedBy(step);
    const skipped = all - model.visible;
    const left =
      run.phases.length > 1
        ? `${grouped(visited)} of ${grouped(run.visits)} visits in ${run.phases.length} kernels`
        : `${grouped(visited)} of ${plural(run.visits, "tile")} visited`;
    const right = !skipped
      ? ""
      : run.visitsHidden
        ? `${grouped(skipped)} wasted: computed, then masked`
        : `${grouped(skipped)} skipped by the mask`;
    const edge = Math.min(box.x + box.w, Math.max(grid.right, grid.x0 + 370 * u)),
      room = edge - grid.x0 - pen.text(left, grid.x0, y, style) - 12 * u;
    const fitting = [right, right.split(" ", 2).join(" ")].find(({ length }) => room >= 7 * length * u);
    if (fitting) pen.right(fitting, edge, y, style);
    if (model.scaled)
      pen.text(drawnNote(model), grid.x0, y + 18 * u, { ...style, weight: 600, color: theme.K });
    else if (grid.side >= NUMBERED * u && !model.backward)
      pen.text("%: the tile's share of its rows' weights", grid.x0, y + 18 * u, { ...style, room: box.w });
  }
}

/** The lines of the tip: where the tile lies, what the mask does to it, its share and its bytes. */
export function tileWords(model, run, i, j) {
  const wasted = run.visitsHidden && !model.seen(i, j),
    kind = !model.seen(i, j) ? "skipped" : model.partial(i, j) ? "partial" : "full";
  const rows = model.rowStart[i + 1] - model.rowStart[i];
  const { read, written } = run.bytesOfTile(i, j);
  return [
    `Tile (${i}, ${j})`,
    wasted ? "wasted: the mask hides it, but it is computed" : `${kind}: ${model.maskWords(i, j)}`,
    ...model.rangeWords(i, j),
    `softmax share ${percent(model.share(i, j))}, mean of ${plural(rows, "row")}`,
    read + written ? `requests ${traffic(read + written)} from L2, counted` : "requests nothing",
    ...(written ? [`${traffic(written)} of that written`] : []),
  ];
}
