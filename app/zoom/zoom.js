// One canvas, one clock: from a layer's heads down to the products that one score is the sum of.

import { between, clamp, decimal } from "../canvas/format.js";
import { FramesPlayer, STATE } from "../canvas/frames.js";
import { sheet } from "../canvas/pen.js";
import { channels, mix, veil } from "../canvas/theme.js";
import { showing } from "../canvas/view.js";

const BAR = { label: "From a layer to one score", state: STATE, frame: "depth" };
const FILLED = [0.96, 0.96, 0.86, 0.8, 0.66]; // of the picture, at each depth
const LINED = 5; // px of a tile, from which on lines tell tiles apart
const OPENED = 120; // units of a score that has room for its products
const SUMMED = 3.45; // of the depths: from here on the products come, one after another

/** How a world's axis, of which [low, high] is shown from one px to another, moves on to another such. */
export function axis([low, high, from, to], [low1, high1, from1, to1], part) {
  const s0 = (to - from) / (high - low),
    s1 = (to1 - from1) / (high1 - low1),
    t0 = from - s0 * low,
    t1 = from1 - s1 * low1;
  if (Math.abs(s1 / s0 - 1) < 1e-6) return { scale: s0, shift: t0 + part * (t1 - t0) };
  const scale = s0 * (s1 / s0) ** part,
    fixed = (t1 - t0) / (s0 - s1);
  return { scale, shift: (s0 - scale) * fixed + t0 };
}

class ZoomPanel {
  layout(box) {
    const { u, model } = this,
      [left, top] = [24 * u, 26 * u],
      [w, h] = [box.w - left, box.h - top];
    this.view = { x: box.x + left, y: box.y + top, w, h };
    this.cameras = model.levels.map(({ x, y, aspect }, n) => {
      const wide = FILLED[n] * Math.min(w, h / aspect),
        tall = wide * aspect,
        from = this.view.x + (w - wide) / 2,
        high = this.view.y + (h - tall) / 2;
      return [
        [...x, from, from + wide],
        [...y, high, high + tall],
      ];
    });
    this.image = this.scoresOf(model);
  }

  /** The tile's scores, a pixel each. */
  scoresOf({ within: [rows, keys], arrays: { strength } }) {
    const ctx = sheet({ x: 0, y: 0, w: keys, h: rows }, 1),
      image = ctx.createImageData(keys, rows),
      [S, cell] = [channels(this.theme.S), channels(this.theme.cell)],
      colour = (part) => [...S.map((c, i) => between(cell[i], c, part / 255)), 255];
    strength.forEach((part, n) => image.data.set(colour(part), 4 * n));
    ctx.putImageData(image, 0, 0);
    return ctx.canvas;
  }

  paint(pen, box, { at }) {
    const { model, view, theme, u } = this,
      { n, part } = model.at(at),
      next = this.cameras[Math.min(n + 1, model.longest)];
    [this.X, this.Y] = this.cameras[n].map((one, k) => axis(one, next[k], part));
    pen.within(view, () => {
      this.heads(pen);
      this.tiles(pen);
      this.scores(pen);
      this.warps(pen);
      this.products(pen, at);
      for (let level = 1; level <= model.longest; level++) this.target(pen, level, at);
    });
    pen.centered("keys", view.x + view.w / 2, box.y + 16 * u, { size: 13, color: theme.K });
    pen.text("Q", box.x + 4 * u, view.y + view.h / 2, { size: 13, color: theme.Q });
  }

  /** A part of the world in px, no further than a little outside the picture. */
  rect(x0, x1, y0, y1) {
    const { X, Y, view } = this,
      on = (value, { scale, shift }, from, size) => clamp(scale * value + shift, from - 9, from + size + 9),
      [left, right] = [x0, x1].map((x) => on(x, X, view.x, view.w)),
      [top, bottom] = [y0, y1].map((y) => on(y, Y, view.y, view.h));
    return [left, top, right - left, bottom - top];
  }

  /** Every head that is to be seen: what its query blocks visit, on what the mask hides. */
  heads(pen) {
    const { model, Y, theme } = this,
      { heads, columns, next, blocks, arrays } = model,
      [lines, across] = blocks,
      some = Math.max(1, Math.ceil((3 * lines) / Y.scale)); // query blocks in a band of 3 px
    for (let head = 0; head < heads; head++) {
      const x = next * (head % columns),
        y = next * Math.floor(head / columns),
        whole = this.rect(x, x + 1, y, y + 1);
      if (whole[2] < 0.5 || whole[3] < 0.5) continue;
      pen.box(...whole, theme.cell, 0);
      if (whole[2] > 40) pen.hatch(...whole, theme.hatch, 7 * pen.u);
      const tint = mix(theme.S, theme.ground, head ? 0.4 : 0.55);
      for (let i = 0; i < lines; i += some) {
        const stop = Math.min(i + some, lines),
          [from, to] = [arrays.first[i] / across, Math.min(1, arrays.stop[stop - 1] / across)];
        pen.box(...this.rect(x + from, x + to, y + i / lines, y + stop / lines), tint, 0);
      }
    }
  }

  /** The first head's tiles, and the row of them that one thread block takes. */
  tiles(pen) {
    const { X, Y, view, theme, model } = this,
      [lines, across] = model.blocks,
      [i] = model.tile,
      all = this.rect(0, 1, 0, 1);
    pen.ctx.fillStyle = theme.ground;
    const lined = ({ scale, shift }, count, from, size, draw) => {
      if (scale / count < LINED) return;
      const low = Math.max(1, Math.floor(((from - shift) / scale) * count)),
        high = Math.min(count - 1, Math.ceil(((from + size - shift) / scale) * count));
      for (let n = low; n <= high; n++) draw((scale * n) / count + shift);
    };
    lined(X, across, view.x, view.w, (x) => pen.ctx.fillRect(x - 0.5, all[1], 1, all[3]));
    lined(Y, lines, view.y, view.h, (y) => pen.ctx.fillRect(all[0], y - 0.5, all[2], 1));
    if (Y.scale / lines > LINED)
      pen.frame(...this.rect(0, 1, i / lines, (i + 1) / lines), theme.Q, 2 * pen.u, 0);
  }

  /** Where the tile's scores lie, in px: they may be far wider than the picture. */
  tileBox() {
    const { X, Y, model } = this,
      { x, y } = model.levels[2],
      left = X.scale * x[0] + X.shift,
      top = Y.scale * y[0] + Y.shift;
    return [left, top, X.scale * (x[1] - x[0]), Y.scale * (y[1] - y[0])];
  }

  scores(pen) {
    const { ctx, u } = pen,
      [x, y, w, h] = this.tileBox();
    ctx.globalAlpha = clamp((Math.max(w, h) / u - 40) / 80, 0, 1);
    ctx.imageSmoothingEnabled = false;
    if (ctx.globalAlpha) ctx.drawImage(this.image, x, y, w, h);
    ctx.globalAlpha = 1;
  }

  /** Lines between what warps take, and whose it is. */
  warps(pen) {
    const { model, theme, view, u } = this,
      [x, y, w, h] = this.tileBox(),
      [rows, keys] = model.within;
    if (Math.min(w, h) < 90 * u) return;
    const tall = model.pieces.at(-1)[1]; // rows from which on the first warp comes again
    for (let again = 0; again < rows; again += tall)
      model.pieces.forEach(([low, stop, first, last], n) => {
        const top = y + ((low + again) * h) / rows,
          left = x + (first * w) / keys,
          size = [((last - first) * w) / keys, (Math.min(stop, rows - again) - low) * (h / rows)];
        if (size[0] <= 0 || size[1] <= 0) return;
        pen.frame(left, top, ...size, theme.ground, 2.5 * u, 0);
        const [right, bottom] = [Math.min(left + size[0], view.x + view.w), top + size[1]],
          style = { size: 12, weight: 600, halo: theme.ground };
        if (size[1] > 18 * u && size[0] > 60 * u && bottom < view.y + view.h)
          pen.right(`warp ${n + 1}`, right - 6 * u, bottom - 5 * u, style);
      });
  }

  /** The frame of what fills the picture at a depth, while it is smaller than that. */
  target(pen, level, at) {
    const { x, y } = this.model.levels[level],
      box = this.rect(...x, ...y),
      { theme, u } = pen;
    if (Math.max(box[2], box[3]) < 5 || at > level - 0.02) return;
    pen.frame(...box, theme.edge, 2 * u, 2);
    if (level > at + 1.5) return;
    const above = box[1] - 20 * u > this.view.y, // there is room
      [left, base] = above ? [2, -6] : [6, 16];
    pen.text(this.model.frames[level].mark, box[0] + left * u, box[1] + base * u, {
      ...{ size: 13, weight: 650, halo: theme.ground },
    });
  }

  /** What one score is the sum of, as it is added up. */
  products(pen, at) {
    const { model, theme } = this,
      { q, k } = model.arrays,
      { u } = pen,
      { x, y } = model.levels[model.longest],
      [left, top, w, h] = this.rect(...x, ...y);
    if (Math.min(w, h) < OPENED * u) return;
    pen.box(left, top, w, h, theme.panel, 4);
    pen.frame(left, top, w, h, theme.edge, 2 * u, 4);
    const shown = Math.floor(clamp((at - SUMMED) / (model.longest - SUMMED), 0, 1) * q.length),
      products = q.map((value, n) => value * k[n]),
      [from, pitch, each] = [left + 12 * u, (w - 24 * u) / q.length, (h - 40 * u) / 3];
    [q, k, products].forEach((values, row) => {
      const most = Math.max(...values.map(Math.abs)) || 1,
        color = [theme.Q, theme.K, theme.S][row],
        middle = top + 8 * u + (row + 0.5) * each;
      pen.box(from, middle, w - 24 * u, 1, theme.line, 0);
      values.forEach((value, n) => {
        const high = (Math.abs(value) / most) * 0.42 * each,
          paint = n < shown ? color : veil(color, row < 2 ? 0.35 : 0);
        pen.box(from + n * pitch, middle - Math.max(0, Math.sign(value)) * high, 0.8 * pitch, high, paint, 0);
      });
      pen.text(["q", "k", "q × k"][row], from, middle - 0.34 * each, {
        ...{ size: 13, weight: 650, color, halo: theme.panel },
      });
    });
    const sum = decimal(products.slice(0, shown).reduce((total, value) => total + value, 0)),
      whole = `${sum} × ${decimal(model.scale, 3)} = ${decimal(model.score)}`,
      told = shown < q.length ? `${shown}: ${sum}` : whole,
      size = Math.min(17, (1.5 * w) / told.length / u);
    pen.centered(told, left + w / 2, top + h - 12 * u, { size, weight: 700, mono: true });
  }
}

class ZoomPlayer extends FramesPlayer {
  static bar = BAR;
  static Picture = ZoomPanel;

  load(part) {
    if (part !== null) return super.load(part);
    const [, held] = location.hash.match(/^#zoom=(\d)$/) ?? [];
    this.told = this.at = Math.min(this.model.depth ?? Number(held ?? 0), this.last);
  }

  /** The address holds the depth at which the zoom comes to rest: the page's, or a file's own. */
  paint() {
    super.paint();
    const depth = Math.round(this.at);
    if (this.playing || depth === this.told) return;
    this.told = depth;
    if (!this.setStateValue) history.replaceState(null, "", `#zoom=${depth}`);
    else if (this.model.depth !== null) this.setStateValue("depth", depth);
  }
}

export default showing(ZoomPlayer);
