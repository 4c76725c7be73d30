// The tiles that a run touched up to a moment; those that no mask asks for, those twice and those missing marked.

import { plural } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { GridLayout } from "../player/grid_layout.js";
import { GridPainter } from "../player/grid_painter.js";
import { tileWords } from "./story.js";

const BEFORE = [{ leaves: "nothing" }]; // of the player's phases: a grid before anything is done
const MOVES = { visit: ["Q", "K"], meet: ["V"] }; // what a product takes
export const MARK_WORDS = { extra: "extra", missing: "missing", repeated: "twice" };

/** The player's painter for steps in any order. */
class TouchedPainter extends GridPainter {
  constructor(model, run, layout, theme, u) {
    super(model, { ...run, phases: BEFORE, visitsHidden: false }, layout, theme, u);
    this.touched = run;
  }

  paintAt(pen, position) {
    const { touched, model, layout, theme } = this,
      at = position - 1,
      over = at < 0 || position > touched.steps,
      [i, j] = over ? [-1, -1] : touched.tile(at),
      kind = over ? "" : touched.does(at),
      moves = MOVES[kind] ?? (over ? [] : [touched.tensors[touched.tensor[at]]]);
    this.run.phaseAt = () => ({ loads: moves });
    pen.ctx.drawImage(this.layers.picture(0), layout.x0, layout.y0, layout.w, layout.h);
    const counts = touched.visited(position, model.keyBlocks);
    for (const [tile, count] of counts)
      this.tile(pen, Math.floor(tile / model.keyBlocks), tile % model.keyBlocks, count);
    if (position > touched.steps) this.missing(pen);
    this.operands(pen, { i, j }, 0);
    this.outputs(pen, position);
    if (i >= 0 && j >= 0 && kind !== "store")
      pen.frame(...grown(layout.cell(i, j), pen.u), theme.edge, 1.8 * pen.u, 3);
  }

  tile(pen, i, j, count) {
    const { layout, theme, model } = this,
      own = !this.touched.model,
      cell = layout.cell(i, j),
      extra = own && model.markOf(i, j) === "extra",
      again = own && count > 1,
      wrong = own && model.isWrong(i, j);
    pen.box(...cell, mix(theme.S, theme.ground, theme.name === "dark" ? 0.5 : 0.42), 2.5);
    if (wrong) pen.frame(...cell, theme.bad, 3 * pen.u, 2.5);
    if (wrong && !extra && !again) this.label(pen, cell, "wrong", "≠");
    if (!extra && !again) return;
    this.striped(pen, cell, theme.bad);
    this.label(pen, cell, extra ? "extra" : `${count} ×`, extra ? "+" : `${count}`);
  }

  /** Tiles that the mask asks for and nobody visited: an empty frame, dashed. */
  missing(pen) {
    if (this.touched.model) return;
    for (const [i, j] of this.model.marks.missing) {
      const cell = this.layout.cell(i, j),
        { u } = pen;
      pen.box(...cell, this.theme.ground, 2.5);
      pen.dashed(...cell, this.theme.bad, 1.8 * u, [4 * u, 3 * u], 2.5);
      this.label(pen, cell, "missing", "−");
    }
  }

  striped(pen, [x, y, w, h], color) {
    pen.hatch(x, y, w, h, color, 5 * pen.u);
    pen.frame(x, y, w, h, color, 1.8 * pen.u, 2.5);
  }

  /** What is wrong with a tile, as a word where there is room, else as a sign. */
  label(pen, [x, y, w, h], word, sign) {
    const { u } = pen,
      size = 12,
      words = w > word.length * 0.66 * size * u ? word : sign;
    if (h < 11 * u || w < 9 * u) return;
    const wide = (words.length * 0.62 * size + 6) * u;
    pen.box(x + w / 2 - wide / 2, y + h / 2 - 9 * u, wide, 17 * u, this.theme.ground, 3);
    const style = { size, weight: 650, align: "center", color: this.theme.bad };
    pen.text(words, x + w / 2, y + h / 2 + 4 * u, style);
  }

  outputs(pen, position) {
    const { layout, theme, model } = this,
      { o, y, gap } = layout,
      stored = this.touched.stored(position);
    for (let i = 0; i < model.queryBlocks; i++)
      pen.box(o.x, y[i], o.w, y[i + 1] - y[i] - gap, stored.has(i) ? theme.O : theme.cell, 2.5);
  }
}

const grown = ([x, y, w, h], u) => [x - 1.5 * u, y - 1.5 * u, w + 3 * u, h + 3 * u];

export class TouchedPanel {
  layout(box) {
    const { model, theme, u, dpr, number } = this,
      room = { ...box, y: box.y + 12 * u, h: box.h - 34 * u };
    this.run = Object.assign(model.runs[number], { model: number === 1 });
    this.grid = new GridLayout(model, room, { left: 18 * u, right: 48 * u }, u, dpr);
    this.painter = new TouchedPainter(model, this.run, this.grid, theme, u);
  }

  signature({ position, beside }) {
    return this.number ? beside : position;
  }

  pointed(x, y) {
    return this.grid.pointed(x, y, (i, j) => tileWords(this.model, this.run, i, j));
  }

  paint(pen, box, { model, position, beside }) {
    const { grid, run } = this,
      { u, theme } = pen,
      at = this.number ? beside : position;
    pen.text(run.name, box.x, box.y + 13 * u, { size: 14, weight: 650, room: box.w });
    for (const [name, x, y] of [
      ["K", grid.x0 - 10 * u, grid.y0 - 16 * u],
      ["V", grid.x0 - 10 * u, grid.y0 - 5 * u],
      ["Q", grid.q.x + grid.q.w / 2, grid.y0 + grid.h + 12 * u],
    ])
      pen.centered(name, x, y, { size: 11.5, weight: 700, color: theme[name] });
    pen.centered("O", grid.o.x + grid.o.w / 2, grid.y0 - 8 * u, { size: 12.5, weight: 700, color: theme.O });
    this.painter.paintAt(pen, at);
    pen.note(this.caption(model, at), grid.x0, grid.y0 + grid.h + 17 * u, { room: box.w - 18 * u });
  }

  caption(model, position) {
    const { run } = this,
      visits = `${run.visitsBy(position)} of ${plural(run.visitSteps.length, "visit")}`;
    if (this.number) return `${visits}, the schedule's`;
    const wrong = Object.entries(model.marks).filter(([, tiles]) => tiles.length);
    return [
      visits,
      ...(model.wrong ? [`first wrong (${model.wrong.tile.join(", ")})`] : []),
      ...wrong.map(([name, tiles]) => `${tiles.length} ${MARK_WORDS[name]}`),
    ].join(", ");
  }
}
