// Scores with their running maximum, weights, the output, and the numbers beside them.

import { clamp, decimal, factor } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";

const SHOWN = 4; // numbers of O
const GRIP = 30; // units around the end of a bar, in which a finger takes it
const between = (from, to, part) => from + (to - from) * part;

/** A panel of bars, one a key, in groups of a tile. */
class KeysPanel {
  follows = ["at", "version", "chosen"];
  bare = 24; // units below the bars, without words

  layout({ x, w, y, h }) {
    const { keys, u } = this,
      tiles = this.model.tiles.length,
      gap = Math.min(14 * u, (0.2 * w) / tiles);
    this.gap = gap;
    this.pitch = (w - gap * tiles) / keys;
    this.top = y + 30 * u;
    this.below = !this.words || h < 90 * u ? this.bare : h < 130 * u ? 46 : 64; // units
    this.bottom = y + h - this.below * u;
    this.left = x;
  }

  get keys() {
    return this.model.scores.length;
  }

  /** Where a key's bar begins, and how wide it is. */
  place(key) {
    const { left, pitch, gap, model } = this;
    return [left + key * pitch + (Math.floor(key / model.block) + 0.5) * gap, 0.8 * pitch];
  }

  heading(pen, box, names) {
    let x = box.x;
    for (const [words, color, note] of names) {
      const style = note ? { size: 13, color, whole: true } : { size: 15, weight: 650, color };
      const room = box.x + box.w - x;
      if (room > 60 * pen.u) x += pen.text(words, x, box.y + 16 * pen.u, { ...style, room }) + 18 * pen.u;
    }
  }
}

export class ScoresPanel extends KeysPanel {
  height(score) {
    const [low, high] = this.model.range;
    return between(this.bottom, this.top, (clamp(score, low, high) - low) / (high - low));
  }

  valueAt(y) {
    const [low, high] = this.model.range;
    return between(low, high, (this.bottom - y) / (this.bottom - this.top));
  }

  /** The key whose column a point is in, or −1. */
  keyAt(x, y) {
    if (y < this.box.y || y > this.box.y + this.box.h) return -1;
    return this.model.scores.findIndex((_, key) => {
      const [from, wide] = this.place(key);
      return x >= from - 0.1 * this.pitch && x < from + wide + 0.1 * this.pitch;
    });
  }

  /** Whether a point is at the end of a score's bar. */
  gripped(x, y) {
    const score = this.model.scores[this.keyAt(x, y)];
    return Number.isFinite(score) && Math.abs(y - this.height(score)) < GRIP * this.u;
  }

  paint(pen, box, { now, chosen, still }) {
    const { u, theme } = pen,
      { model } = this,
      { tile, kind, part } = now;
    this.heading(pen, box, [
      ["scores of one row", theme.S],
      [this.narrow ? "m, maximum" : "m, the running maximum", theme.statistics],
      ...(this.narrow || still ? [] : [["drag a score", theme.muted, true]]),
    ]);
    const zero = this.height(0);
    pen.rule(box.x, zero, box.w);
    model.scores.forEach((score, key) => {
      const [x, wide] = this.place(key);
      if (score === -Infinity) return pen.hatch(x, this.top, wide, this.bottom - this.top, theme.line, 6 * u);
      const of = Math.floor(key / model.block),
        coming = of === tile && kind === "scores" ? part : 1,
        strength = of > tile ? 0.22 : of === tile ? between(0.22, 1, coming) : 0.5,
        y = this.height(score);
      pen.box(
        x,
        Math.min(y, zero),
        wide,
        Math.max(1, Math.abs(y - zero)),
        mix(theme.S, theme.ground, strength),
        2,
      );
      if (key === chosen)
        pen.frame(
          x - 2 * u,
          Math.min(y, zero) - 2 * u,
          wide + 4 * u,
          Math.abs(y - zero) + 4 * u,
          theme.muted,
          1,
        );
    });
    model.tiles.forEach(({ first, stop }, n) => {
      const [from] = this.place(first),
        [last, wide] = this.place(stop - 1),
        here = n === tile;
      const words = this.narrow ? `${n + 1}` : `key tile ${n + 1}${here ? " · now" : ""}`;
      if (here || last + wide - from > (this.narrow ? 12 : 84) * u)
        pen.centered(
          words,
          clamp((from + last + wide) / 2, box.x + 40 * u, box.x + box.w - 40 * u),
          this.bottom + 18 * u,
          {
            ...{ size: 13, weight: here ? 650 : 400, color: here ? theme.ink : theme.muted },
          },
        );
    });
    this.staircase(pen, now);
  }

  /** The maximum over the tiles read; that of the tile that comes moves to its height. */
  staircase(pen, { tile, kind, part }) {
    const { u, theme } = pen,
      { tiles } = this.model,
      half = this.gap / 2;
    let before = null;
    for (let n = 0; n <= tile; n++) {
      const { first, stop, m } = tiles[n],
        was = Number.isFinite(tiles[n].was) ? tiles[n].was : m,
        coming = n === tile && kind === "scores" ? part : 1;
      if (m === -Infinity) continue;
      if (!n && coming < 0.05) return;
      const level = this.height(between(was, m, coming)),
        [from] = this.place(first),
        [last, wide] = this.place(stop - 1),
        right = between(from - half, last + 0.25 * wide + this.pitch + half, n ? 1 : coming);
      pen.box(from - half, level - 1.5 * u, right - from + half, 3 * u, theme.statistics, 0);
      if (before !== null)
        pen.box(
          from - half - 1.5 * u,
          Math.min(before, level) - 1.5 * u,
          3 * u,
          Math.abs(before - level) + 3 * u,
          theme.statistics,
          0,
        );
      if (n === tile || (m < tiles[n + 1].m && last + wide - from > 40 * u))
        pen.text(decimal(between(was, m, coming)), last + wide - 34 * u, level - 7 * u, {
          ...{
            size: 13,
            mono: true,
            weight: n === tile ? 700 : 400,
            color: n === tile ? theme.statistics : theme.muted,
          },
        });
      before = level;
    }
  }
}

/** What a tile's weights are at a moment of it, beside those before it. */
function weightsAt({ first, stop, before, after, factor: by }, { kind, part }) {
  const shrunk = kind === "scores" ? 1 : kind === "rescale" ? by ** part : by,
    landed = kind === "add" ? part : kind === "divide" ? 1 : 0;
  return after.map((weight, key) => (key >= first && key < stop ? weight * landed : before[key] * shrunk));
}

export class WeightsPanel extends KeysPanel {
  bare = 4;

  get words() {
    return this.model.tokens;
  }

  paint(pen, box, { now }) {
    const { u, theme } = pen,
      { model } = this,
      tile = model.tiles[now.tile],
      weights = weightsAt(tile, now),
      shrinks = tile.factor < 1 && ["rescale", "add"].includes(now.kind),
      most = Math.max(1, ...tile.after, ...tile.before);
    this.heading(pen, box, [
      ["weights e^(s − m)", theme.S],
      ...(shrinks ? [["hatched: before the maximum rose", theme.muted, true]] : []),
    ]);
    const tall = this.bottom - this.top;
    pen.rule(box.x, this.bottom, box.w);
    weights.forEach((weight, key) => {
      const [x, wide] = this.place(key),
        h = (weight / most) * tall,
        old = (tile.before[key] / most) * tall,
        fresh = key >= tile.first;
      if (shrinks && old > 1) {
        pen.hatch(x, this.bottom - old, wide, old, mix(theme.S, theme.ground, 0.45), 5 * u);
      }
      pen.box(x, this.bottom - h, wide, h, mix(theme.S, theme.ground, fresh ? 1 : 0.68), 2);
    });
    const told = this.below > 24 ? this.words : [];
    told.forEach((words, key) => {
      const [x, wide] = this.place(key);
      pen.upwards(words, x + wide / 2 + 4 * u, this.bottom + 6 * u, {
        ...{ size: 12, color: theme.muted, align: "right", room: (this.below - 8) * u },
      });
    });
    if (!shrinks) return;
    const largest = tile.before.indexOf(Math.max(...tile.before)),
      [x, wide] = this.place(largest),
      y = this.bottom - (tile.before[largest] / most) * tall;
    pen.text(`× ${factor(tile.factor)}`, x + wide + 5 * u, y + 18 * u, {
      ...{ size: 15, weight: 700, color: theme.O, halo: theme.ground },
    });
  }
}

export class OutPanel {
  follows = ["at", "version"];

  paint(pen, box, { now, rescaling }) {
    const { u, theme } = pen,
      { model } = this,
      tile = model.tiles[now.tile],
      { before, rescaled, after } = tile.out,
      divided = now.kind === "divide",
      wrong = !rescaling && divided;
    const name = divided ? "O ÷ l, the output" : "O, the output so far";
    pen.text(`${name}: ${SHOWN} of its numbers`, box.x, box.y + 16 * u, {
      ...{ size: 15, weight: 650, color: wrong ? theme.bad : theme.O, room: box.w },
    });
    const columns = divided
      ? [
          [model.found, "found", 1, now.part],
          [model.right, "at once", 0.55, 1],
        ]
      : [
          [before, "before", 0.35, 1],
          [rescaled, "× α", 0.65, now.kind === "scores" ? 0 : now.kind === "rescale" ? now.part : 1],
          [after, "+ tile", 1, now.kind === "add" ? now.part : 0],
        ];
    const most = Math.max(0.1, ...columns.flatMap(([values]) => values.map(Math.abs)));
    const pitch = box.w / SHOWN,
      wide = Math.min(divided ? 60 * u : 34 * u, (0.78 * pitch) / columns.length),
      middle = box.y + 30 * u + (box.h - 54 * u) / 2,
      half = (box.h - 60 * u) / 2;
    pen.rule(box.x, middle, box.w);
    for (let dim = 0; dim < SHOWN; dim++) {
      columns.forEach(([values, words, strength, there], n) => {
        const from = n && !divided ? columns[n - 1][0][dim] : 0,
          value = divided ? values[dim] * there : between(from, values[dim], there),
          x = box.x + 10 * u + dim * pitch + n * (wide + 4 * u),
          h = (Math.abs(value) / most) * half;
        if (there > 0)
          pen.box(
            x,
            value < 0 ? middle : middle - h,
            wide,
            Math.max(1, h),
            mix(wrong && !n ? theme.bad : theme.O, theme.ground, strength),
            2,
          );
        if (!this.narrow || dim === 0)
          pen.centered(words, x + wide / 2, box.y + box.h - 4 * u, {
            size: 11.5,
            color: theme.muted,
            room: wide + 8 * u,
          });
      });
    }
  }
}

const lse = (m, l) => decimal(l ? m + Math.log(l) : -Infinity);

export class NumbersPanel {
  follows = ["at", "version"];

  paint(pen, box, { now, rescaling }) {
    const { u, theme } = pen,
      { model, narrow } = this,
      { was, m, alpha, l, out } = model.tiles[now.tile],
      shown = ["scores", "rescale", "add", "divide"].indexOf(now.kind);
    pen.box(box.x, box.y, box.w, box.h, theme.panel, 6);
    const left = box.x + 18 * u,
      right = box.x + box.w - 18 * u,
      columns = [0.44, 0.7, 1].map((part) => between(left, right, part));
    ["before", "× α", narrow ? "+ tile" : "with the tile"].forEach((words, n) =>
      pen.right(words, columns[n], box.y + 24 * u, { size: 13, color: n === 1 ? theme.O : theme.muted }),
    );
    const { statistics, O, S } = theme,
      of = ({ before, rescaled, after }) =>
        [before, rescaled, after].map((value) => decimal(value[0] ?? value));
    const rows = [
      ["m", "running maximum", statistics, decimal(was), "", decimal(m), true],
      ["ℓ", "running sum", statistics, ...of(l), shown >= 2],
      ["α", "one factor for all", O, "", rescaling ? factor(alpha) : "1.00", "", false],
      ["O", "its first number", O, ...of(out), shown >= 2],
      ["lse", "m + log ℓ", S, lse(was, l.before), "", lse(m, l.after), shown >= 2],
    ];
    const line = (box.h - (narrow ? 64 : 116) * u) / rows.length;
    rows.forEach(([name, about, color, before, scaled, after, last], n) => {
      const y = box.y + 40 * u + (n + 0.5) * line;
      pen.text(name, left, y, { size: 24, weight: 700, mono: true, color });
      if (!narrow && line > 46 * u) pen.text(about, left, y + 18 * u, { size: 12.5, color: theme.muted });
      if (now.tile) pen.right(before, columns[0], y, { size: 18, mono: true, color: theme.muted });
      if (shown >= 1 && now.tile)
        pen.right(scaled, columns[1], y, { size: 18, mono: true, weight: 600, color: O });
      if (last) pen.value(after, columns[2], y);
    });
    const foot = { size: 14, room: right - left },
      y = box.y + box.h - 14 * u;
    for (const [words, color, up] of this.foot(now, rescaling))
      pen.text(words, left, y - (narrow ? 0 : up) * u, { ...foot, color: theme[color] });
  }

  /** What comes out of it at the end, and before that what a sum without the maximum would be; from below. */
  foot({ kind, tile }, rescaling) {
    const { model, narrow } = this,
      [found, right] = [model.found, model.right].map(([first]) => decimal(first, 3));
    if (kind === "divide" && (rescaling || found === right))
      return [[`O ÷ l = ${found}, as with all scores at once`, "ink", 0]];
    if (kind === "divide") return [[`O ÷ l = ${found}; with α it is ${right}`, "bad", 0]];
    if (narrow || model.scores !== model.drawn) return [];
    const naive = model.naive[tile],
      bad = naive === "inf";
    return [
      [`Σ e^s = ${naive}${bad ? ": it has overflowed" : ""}`, bad ? "bad" : "muted", 0],
      [`Without the maximum, summed in ${model.dtype}:`, "muted", 20],
    ];
  }
}
