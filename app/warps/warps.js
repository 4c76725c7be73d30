// One canvas, one clock: four warps share a tile out by its keys, and beside that by its queries.

import { cut } from "../canvas/cut.js";
import { between, clamp, traffic } from "../canvas/format.js";
import { showingFrames } from "../canvas/frames.js";
import { mix } from "../canvas/theme.js";

const [SCORES, MAXIMUM, WEIGHTS, PRODUCTS, SUM] = [1, 2, 3, 4, 5]; // the frames at whose end each is done
const CUTS = { keys: ["FlashAttention-1", "keys cut"], queries: ["FlashAttention-2", "queries cut"] };
const BAR = {
  label: "Four warps share a tile",
  frame: "step",
};
const spread = ({ x, y, w, h }) => [x, y, w, h];

class WarpsPanel {
  paint(pen, box, { at }) {
    const halves = cut(box, "x", 26 * pen.u, [null, null]),
      done = (frame) => clamp(at - frame + 1, 0, 1);
    Object.keys(CUTS).forEach((way, n) => this.half(pen, way, halves[n], done));
  }

  /** One way to cut the tile; `done(frame)` is how much has happened of what leads to a frame. */
  half(pen, way, box, done) {
    const { model, theme, u } = this,
      [top, low, left] = [72 * u, 68 * u, 26 * u],
      wide = 0.52 * (box.w - left),
      tall = Math.min(box.h - top - low, wide * clamp(model.tall, 0.7, 2)),
      tile = { x: box.x + left, y: box.y + top, w: wide, h: tall },
      out = { x: tile.x + wide + 18 * u, y: tile.y, w: 0.68 * wide, h: tall },
      memory = { x: box.x, y: box.y + box.h - 44 * u, w: box.w, h: 40 * u },
      bold = { size: 13, weight: 700 },
      title = this.narrow ? CUTS[way][1] : CUTS[way];
    pen.text(title, box.x, box.y + 16 * u, { size: 15, weight: 650, room: box.w });
    for (let warp = 0; warp < model.warps; warp++) {
      const part = { byKeys: way === "keys", warp, shade: 1 - 0.17 * warp };
      this.operands(pen, tile, part);
      this.scores(pen, tile, part, done);
      this.maximum(pen, tile, memory, part, done(MAXIMUM));
      this.out(pen, out, memory, part, done);
    }
    pen.centered("K, V", tile.x + wide / 2, tile.y - 30 * u, { ...bold, color: theme.K });
    pen.text("Q", tile.x - 24 * u, tile.y - 8 * u, { ...bold, color: theme.Q });
    pen.centered("O", out.x + out.w / 2, out.y - 8 * u, { ...bold, color: theme.O });
    this.shared(pen, memory, way, done);
  }

  /** A warp's strip of a box: a part of its width, or of its height. */
  strip(box, { byKeys, warp }, gap) {
    return spread(cut(box, byKeys ? "x" : "y", gap, Array(this.model.warps).fill(null))[warp]);
  }

  /** K above the tile and Q beside it: what is cut has the shade of its warp. */
  operands(pen, { x, y, w, h }, part) {
    const { theme, u } = this,
      [above, beside] = [
        { x, y: y - 24 * u, w, h: 16 * u },
        { x: x - 24 * u, y, w: 16 * u, h },
      ];
    for (const [box, color, own] of [
      [above, theme.K, part.byKeys],
      [beside, theme.Q, !part.byKeys],
    ]) {
      const at = own ? this.strip(box, part, 2 * u) : spread(box);
      pen.box(...at, mix(color, theme.ground, own ? part.shade : 0.85), 2);
    }
  }

  scores(pen, tile, part, done) {
    const { theme, u } = this,
      [x, y, w, h] = this.strip(tile, part, 2 * u),
      strength = part.shade * between(0.35, 1, done(WEIGHTS)),
      name = w > 62 * u ? `warp ${part.warp + 1}` : `${part.warp + 1}`;
    pen.box(x, y, w, h, theme.cell, 2);
    pen.box(x, y, w, h * done(SCORES), mix(theme.S, theme.ground, strength), 2);
    pen.centered(name, x + w / 2, y + h / 2 + 5 * u, { size: 13, weight: 650, halo: theme.ground });
  }

  /** The maximum of every row: of a part of the row it goes to the others and comes back. */
  maximum(pen, tile, memory, part, done) {
    if (!done) return;
    const { u, theme } = pen,
      [x, y, w, h] = this.strip(tile, part, 2 * u),
      away = part.byKeys ? Math.sin(Math.PI * done) : 0,
      [at, high] = [between(y, memory.y + 4 * u, away), between(h, 12 * u, away)];
    pen.box(x + w - 6 * u, at, 5 * u, high, theme.statistics, 2);
  }

  /** O of a warp: of all rows, to be added to the others', or of its own. */
  out(pen, out, memory, part, done) {
    const { theme, model, u } = this,
      [grown, moved] = [done(PRODUCTS), done(SUM)],
      color = mix(theme.O, theme.ground, part.shade),
      [x, top, wide, high] = this.strip(out, { ...part, byKeys: false }, 2 * u),
      bottom = memory.y + 6 * u;
    if (!grown) return;
    if (!part.byKeys) return pen.box(x, top, wide * grown, high, color, 2);
    if (moved >= 0.5) {
      const back = 2 * moved - 1,
        at = [between(bottom, top, back), wide, between(8 * u, high, back)];
      return pen.box(x, ...at, mix(theme.O, theme.ground, 0.9), 2);
    }
    const aside = part.warp * 7 * u,
      [w, h] = [out.w - 22 * u, out.h - 22 * u],
      away = Math.sin(Math.PI * moved), // down into shared memory, where it is added
      y = between(out.y + aside, bottom, away),
      sheet = [out.x + aside, y, w * grown, between(h, 14 * u, away)],
      style = { size: 13, weight: 650, halo: theme.ground };
    pen.box(...sheet, color, 2);
    pen.frame(...sheet, theme.ground, 1, 2);
    if (part.warp === model.warps - 1 && moved < 0.1)
      pen.centered(`${model.warps} parts`, out.x + out.w / 2, out.y + out.h / 2, style);
  }

  /** Shared memory, and the bytes that warps have passed through it. */
  shared(pen, { x, y, w, h }, way, done) {
    const { model, theme, u } = this,
      passed = model.passed[way],
      at = passed.reduce((sum, bytes, n) => (n ? sum + (bytes - passed[n - 1]) * done(n) : bytes), 0),
      most = model.passed.keys.at(-1) || 1,
      name = w > 300 * u ? "through shared memory" : this.narrow ? "" : "exchanged";
    pen.box(x, y, w, h, theme.panel, 4);
    pen.box(x, y + h - 8 * u, (w * at) / most, 8 * u, theme.O, 2);
    pen.note(name, x + 8 * u, y + 22 * u);
    pen.right(traffic(Math.round(at)), x + w - 8 * u, y + 23 * u, { size: 17, weight: 700, mono: true });
  }
}

export default showingFrames(WarpsPanel, BAR, "__warps", true);
