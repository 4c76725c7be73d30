// One canvas, one clock: four warps share a tile out by its keys, and beside that by its queries.

import { clamp, traffic } from "../canvas/format.js";
import { showingFrames } from "../canvas/frames.js";
import { mix } from "../canvas/theme.js";

const [SCORES, MAXIMUM, WEIGHTS, PRODUCTS, SUM] = [1, 2, 3, 4, 5]; // the frames at whose end each is done
const CUTS = { keys: ["FlashAttention-1", "keys cut"], queries: ["FlashAttention-2", "queries cut"] };
const BAR = {
  label: "Four warps share a tile",
  slider: "Step",
  frame: "step",
  speeds: [0.25, 0.5, 1, 2],
  arrows: "to the step before, or next",
  guide: {
    "a colour's shade": "a warp, and what it has computed",
    "shared memory": "where warps leave what others need, and wait for one another",
    O: "of every row the sum of weights times V; parts of it must be added",
  },
};
const between = (from, to, part) => from + (to - from) * part;

class WarpsPanel {
  follows = ["at"];

  paint(pen, box, { at }) {
    const { u } = pen,
      gap = 26 * u,
      wide = (box.w - gap) / 2;
    Object.keys(CUTS).forEach((cut, n) => {
      this.half(pen, cut, { ...box, x: box.x + n * (wide + gap), w: wide }, (frame) =>
        clamp(at - frame + 1, 0, 1),
      );
    });
  }

  /** One way to cut the tile; `done(frame)` is how much has happened of what leads to a frame. */
  half(pen, cut, box, done) {
    const { model, theme } = this,
      { u } = pen,
      byKeys = cut === "keys",
      [top, low, left] = [72 * u, 68 * u, 26 * u],
      wide = 0.52 * (box.w - left),
      tall = Math.min(box.h - top - low, wide * clamp(model.tall, 0.7, 2)),
      tile = { x: box.x + left, y: box.y + top, w: wide, h: tall },
      out = { x: tile.x + wide + 18 * u, y: tile.y, w: 0.68 * wide, h: tall },
      memory = { x: box.x, y: box.y + box.h - 44 * u, w: box.w, h: 40 * u };
    pen.text(this.narrow ? CUTS[cut][1] : CUTS[cut], box.x, box.y + 16 * u, {
      size: 15,
      weight: 650,
      room: box.w,
    });
    for (let warp = 0; warp < model.warps; warp++) {
      const part = { byKeys, warp, shade: 1 - 0.17 * warp };
      this.operands(pen, tile, part);
      this.scores(pen, tile, part, done);
      this.maximum(pen, tile, memory, part, done(MAXIMUM));
      this.out(pen, out, memory, part, done);
    }
    pen.centered("O", out.x + out.w / 2, out.y - 8 * u, { size: 13, weight: 700, color: theme.O });
    this.shared(pen, memory, cut, done);
  }

  /** A warp's strip of a box: a part of its width, or of its height. */
  strip({ x, y, w, h }, { byKeys, warp }, gap) {
    const count = this.model.warps;
    return byKeys
      ? [x + (warp * w) / count, y, w / count - gap, h]
      : [x, y + (warp * h) / count, w, h / count - gap];
  }

  /** K above the tile and Q beside it: what is cut has the shade of its warp. */
  operands(pen, tile, part) {
    const { theme } = this,
      { u } = pen,
      [above, beside] = [
        { ...tile, y: tile.y - 24 * u, h: 16 * u },
        { ...tile, x: tile.x - 24 * u, w: 16 * u },
      ],
      tint = (color, cut) => mix(color, theme.ground, cut ? part.shade : 0.85);
    const whole = ({ x, y, w, h }) => [x, y, w, h];
    pen.box(...(part.byKeys ? this.strip(above, part, 2 * u) : whole(above)), tint(theme.K, part.byKeys), 2);
    pen.box(
      ...(part.byKeys ? whole(beside) : this.strip(beside, part, 2 * u)),
      tint(theme.Q, !part.byKeys),
      2,
    );
    if (part.warp) return;
    pen.centered("K, V", tile.x + tile.w / 2, tile.y - 30 * u, { size: 13, weight: 700, color: theme.K });
    pen.text("Q", tile.x - 24 * u, tile.y - 8 * u, { size: 13, weight: 700, color: theme.Q });
  }

  scores(pen, tile, part, done) {
    const { theme } = this,
      { u } = pen,
      [x, y, w, h] = this.strip(tile, part, 2 * u),
      strength = part.shade * between(0.35, 1, done(WEIGHTS));
    pen.box(x, y, w, h, theme.cell, 2);
    pen.box(x, y, w, h * done(SCORES), mix(theme.S, theme.ground, strength), 2);
    const room = w > 62 * u,
      name = room ? `warp ${part.warp + 1}` : `${part.warp + 1}`;
    pen.centered(name, x + w / 2, y + h / 2 + 5 * u, { size: 13, weight: 650, halo: theme.ground });
  }

  /** The maximum of every row: of a part of the row it goes to the others and comes back. */
  maximum(pen, tile, memory, part, done) {
    if (!done) return;
    const { theme } = this,
      { u } = pen,
      [x, y, w, h] = this.strip(tile, part, 2 * u),
      away = part.byKeys ? Math.sin(Math.PI * done) : 0,
      at = { x: x + w - 6 * u, y: between(y, memory.y + 4 * u, away), h: between(h, 12 * u, away) };
    pen.box(at.x, at.y, 5 * u, at.h, theme.statistics, 2);
  }

  /** O of a warp: of all rows, to be added to the others', or of its own. */
  out(pen, out, memory, part, done) {
    const { theme, model } = this,
      { u } = pen,
      grown = done(PRODUCTS),
      color = mix(theme.O, theme.ground, part.shade);
    if (!grown) return;
    if (!part.byKeys) {
      const [x, y, w, h] = this.strip(out, part, 2 * u);
      return pen.box(x, y, w * grown, h, color, 2);
    }
    const moved = done(SUM),
      aside = part.warp * 7 * u,
      sheet = { x: out.x + aside, y: out.y + aside, w: out.w - 22 * u, h: out.h - 22 * u },
      away = Math.sin(Math.PI * Math.min(moved, 0.5)), // down into shared memory, where it is added
      y = between(sheet.y, memory.y + 6 * u, away),
      h = between(sheet.h, 14 * u, away);
    if (moved < 0.5) {
      pen.box(sheet.x, y, sheet.w * grown, h, color, 2);
      pen.frame(sheet.x, y, sheet.w * grown, h, theme.ground, 1, 2);
    } else {
      const [x, top, wide, high] = this.strip(out, { ...part, byKeys: false }, 2 * u),
        back = 2 * moved - 1;
      pen.box(
        x,
        between(memory.y + 6 * u, top, back),
        wide,
        between(8 * u, high, back),
        mix(theme.O, theme.ground, 0.9),
        2,
      );
    }
    if (part.warp === model.warps - 1 && moved < 0.1)
      pen.centered(`${model.warps} parts`, out.x + out.w / 2, out.y + out.h / 2, {
        size: 13,
        weight: 650,
        halo: theme.ground,
      });
  }

  /** Shared memory, and the bytes that warps have passed through it. */
  shared(pen, { x, y, w, h }, cut, done) {
    const { model, theme } = this,
      { u } = pen,
      passed = model.passed[cut],
      at = passed.reduce((sum, bytes, n) => (n ? sum + (bytes - passed[n - 1]) * done(n) : bytes), 0),
      most = model.passed.keys.at(-1) || 1,
      name = w > 300 * u ? "through shared memory" : this.narrow ? "" : "exchanged";
    pen.box(x, y, w, h, theme.panel, 4);
    pen.box(x, y + h - 8 * u, (w * at) / most, 8 * u, theme.O, 2);
    pen.note(name, x + 8 * u, y + 22 * u);
    pen.right(traffic(Math.round(at)), x + w - 8 * u, y + 23 * u, { size: 17, weight: 700, mono: true });
  }
}

const show = showingFrames(WarpsPanel, BAR, "__warps", true);
export default show;
