// What a run touched up to a moment: its tiles, marked where they are wrong, and its bytes by tensor.

import { plural, traffic } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { GridLayout } from "../player/grid_layout.js";
import { GridPainter } from "../player/grid_painter.js";

const BEFORE = [{ leaves: "nothing" }]; // of the player's phases: a grid before anything is done
const MOVES = { visit: ["Q", "K"], meet: ["V"] }; // what a product takes
const MARK_WORDS = { extra: "extra", missing: "missing", repeated: "twice" };

/** The player's painter for steps in any order. */
class TouchedPainter extends GridPainter {
  constructor(model, run, layout, theme, u) {
    super(model, { ...run, phases: BEFORE, visitsHidden: false }, layout, theme, u);
    this.touched = run;
  }

  paintAt(pen, position) {
    const { touched, model, layout, theme } = this,
      { keyBlocks } = model,
      at = position - 1,
      over = at < 0 || position > touched.steps,
      [i, j] = over ? [-1, -1] : touched.tile(at),
      kind = over ? "" : touched.does(at),
      moves = MOVES[kind] ?? (over ? [] : [touched.tensors[touched.tensor[at]]]);
    this.run.phaseAt = () => ({ loads: moves });
    pen.ctx.drawImage(this.layers.picture(0), layout.x0, layout.y0, layout.w, layout.h);
    for (const [tile, count] of touched.visited(position, keyBlocks))
      this.tile(pen, Math.floor(tile / keyBlocks), tile % keyBlocks, count);
    if (position > touched.steps && !touched.model) this.missing(pen);
    this.operands(pen, { i, j }, 0);
    this.outputs(pen, position);
    if (i < 0 || j < 0 || kind === "store") return;
    const [x, y, w, h] = layout.cell(i, j),
      out = 1.5 * pen.u;
    pen.frame(x - out, y - out, w + 2 * out, h + 2 * out, theme.edge, 1.8 * pen.u, 3);
  }

  tile(pen, i, j, count) {
    const { layout, theme, model, touched } = this,
      cell = layout.cell(i, j),
      extra = !touched.model && model.markOf(i, j) === "extra",
      again = !touched.model && count > 1;
    pen.box(...cell, mix(theme.S, theme.ground, theme.name === "dark" ? 0.5 : 0.42), 2.5);
    if (!touched.model && model.isWrong(i, j)) {
      pen.frame(...cell, theme.bad, 3 * pen.u, 2.5);
      if (!extra && !again) this.label(pen, cell, "wrong", "≠");
    }
    if (!extra && !again) return;
    pen.hatch(...cell, theme.bad, 5 * pen.u);
    pen.frame(...cell, theme.bad, 1.8 * pen.u, 2.5);
    this.label(pen, cell, extra ? "extra" : `${count} ×`, extra ? "+" : `${count}`);
  }

  /** Tiles that the mask asks for and nobody visited: an empty frame, dashed. */
  missing(pen) {
    const { u, theme } = pen;
    for (const [i, j] of this.model.marks.missing) {
      const cell = this.layout.cell(i, j);
      pen.box(...cell, theme.ground, 2.5);
      pen.dashed(...cell, theme.bad, 1.8 * u, [4 * u, 3 * u], 2.5);
      this.label(pen, cell, "missing", "−");
    }
  }

  /** What is wrong with a tile, as a word where there is room, else as a sign. */
  label(pen, [x, y, w, h], word, sign) {
    const { u, theme } = pen,
      size = 12,
      words = w > word.length * 0.66 * size * u ? word : sign,
      wide = (words.length * 0.62 * size + 6) * u,
      [across, middle] = [x + w / 2, y + h / 2];
    if (h < 11 * u || w < 9 * u) return;
    pen.box(across - wide / 2, middle - 9 * u, wide, 17 * u, theme.ground, 3);
    pen.centered(words, across, middle + 4 * u, { size, weight: 650, color: theme.bad });
  }

  outputs(pen, position) {
    const { layout, theme, model } = this,
      { o, y, gap } = layout,
      stored = this.touched.stored(position);
    for (let i = 0; i < model.queryBlocks; i++)
      pen.box(o.x, y[i], o.w, y[i + 1] - y[i] - gap, stored.has(i) ? theme.O : theme.cell, 2.5);
  }
}

export class TouchedPanel {
  layout(box) {
    const { model, theme, u, dpr, number } = this,
      room = { ...box, y: box.y + 12 * u, h: box.h - 34 * u };
    this.run = Object.assign(model.runs[number], { model: number === 1 });
    this.grid = new GridLayout(model, room, { left: 18 * u, right: 48 * u }, u, dpr);
    this.painter = new TouchedPainter(model, this.run, this.grid, theme, u);
  }

  paint(pen, box, { model, position, beside }) {
    const { x0, y0, h, q, o } = this.grid,
      { u, theme } = pen,
      at = this.number ? beside : position,
      name = (words, x, y, size = 11.5) =>
        pen.centered(words, x, y, { size, weight: 700, color: theme[words] });
    pen.text(this.run.name, box.x, box.y + 13 * u, { size: 14, weight: 650, room: box.w });
    name("K", x0 - 10 * u, y0 - 16 * u);
    name("V", x0 - 10 * u, y0 - 5 * u);
    name("Q", q.x + q.w / 2, y0 + h + 12 * u);
    name("O", o.x + o.w / 2, y0 - 8 * u, 12.5);
    this.painter.paintAt(pen, at);
    pen.note(this.caption(model, at), x0, y0 + h + 17 * u, { room: box.w - 18 * u });
  }

  caption({ wrong, marks }, position) {
    const { run } = this,
      visits = `${run.visitsBy(position)} of ${plural(run.visitSteps.length, "visit")}`,
      marked = Object.entries(marks).filter(([, tiles]) => tiles.length),
      first = wrong ? [`first wrong (${wrong.join(", ")})`] : [];
    if (this.number) return `${visits}, the schedule's`;
    return [visits, ...first, ...marked.map(([name, tiles]) => `${tiles.length} ${MARK_WORDS[name]}`)].join(
      ", ",
    );
  }
}

const NAMED = ["Q", "K", "V", "O"];
const MOST_ROWS = 8;

/** Bytes by tensor: the kernel's own as bars, FlashAttention-2's whole run as a line across each. */
export class BytesPanel {
  layout() {
    const { model } = this,
      { own, flash2 } = model;
    const named = NAMED.filter((name) => flash2 || own.totals.has(name)),
      totals = model.runs.flatMap((run) => [...run.totals.values()]);
    this.names = [...new Set([...named, ...own.totals.keys()])].slice(0, MOST_ROWS);
    this.most = Math.max(1, ...totals.map(({ read, written }) => read + written));
  }

  paint(pen, box, { position }) {
    const { own, flash2 } = this.model,
      { u, theme } = pen,
      now = own.moved(position),
      pitch = Math.min((flash2 ? 26 : 44) * u, (box.h - 26 * u) / this.names.length),
      high = Math.min((flash2 ? 15 : 28) * u, pitch - 5 * u),
      left = box.x + 62 * u,
      right = box.x + box.w,
      room = box.w - 234 * u,
      narrow = box.w < 460 * u, // where both would run into one another
      title = flash2 && !narrow ? "Bytes of this head so far, counted" : "Bytes so far, counted",
      meant = narrow ? "line and ( ): FlashAttention-2" : "line, and in brackets: FlashAttention-2",
      wide = (size) => (room * size) / this.most;
    pen.text(title, box.x, box.y + 13 * u, { size: 13, weight: 650 });
    if (flash2) pen.right(meant, right, box.y + 13 * u, { size: 12, color: theme.muted });
    this.names.forEach((name, n) => {
      const y = box.y + 24 * u + n * pitch,
        base = y + high / 2 + 4.5 * u,
        { read, written } = now.get(name) ?? { read: 0, written: 0 },
        whole = flash2?.totals.get(name),
        all = whole && whole.read + whole.written,
        color = theme[name] ?? theme.muted;
      pen.text(name, box.x, base, { size: 12.5, weight: 650, color, room: 58 * u });
      pen.box(left, y, room, high, mix(theme.cell, theme.ground, 0.6), 2);
      pen.box(left, y, wide(read), high, mix(color, theme.ground, 0.8), 2);
      pen.box(left + wide(read), y, wide(written), high, color, 2);
      if (whole) pen.box(left + wide(all) - u, y - 3 * u, 2 * u, high + 6 * u, theme.ink, 0);
      const beside = whole ? ` (${traffic(all)})` : "";
      pen.right(traffic(read + written) + beside, right, base, { size: 12, mono: true });
    });
  }
}
