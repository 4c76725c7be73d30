// Scores with their running maximum, weights, the output, and the numbers beside them.

import { between, clamp, decimal, factor } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";

const SHOWN = 4; // numbers of O
const GRIP = 30; // units around the end of a bar, in which a finger takes it

/** A panel of bars, one a key, in groups of a tile. */
class KeysPanel {
  bare = 24; // units below the bars, without words

  layout({ x, w, y, h }) {
    const { model, u } = this,
      tiles = model.tiles.length;
    this.gap = Math.min(14 * u, (0.2 * w) / tiles);
    this.pitch = (w - this.gap * tiles) / model.scores.length;
    this.top = y + 30 * u;
    this.below = !this.words || h < 90 * u ? this.bare : h < 130 * u ? 46 : 64; // units
    this.bottom = y + h - this.below * u;
    this.left = x;
  }

  /** Where a key's bar begins, and how wide it is. */
  place(key) {
    const { left, pitch, gap, model } = this;
    return [left + key * pitch + (Math.floor(key / model.block) + 0.5) * gap, 0.8 * pitch];
  }

  heading(pen, box, names) {
    let x = box.x;
    for (const [words, color, note] of names) {
      const style = note ? { size: 13, color, whole: true } : { size: 15, weight: 650, color },
        room = box.x + box.w - x;
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
    return between(...this.model.range, (this.bottom - y) / (this.bottom - this.top));
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
    const { model, narrow, u, theme } = this,
      zero = this.height(0);
    this.heading(pen, box, [
      ["scores of one row", theme.S],
      [narrow ? "m, maximum" : "m, the running maximum", theme.statistics],
      ...(narrow || still ? [] : [["drag a score", theme.muted, true]]),
    ]);
    pen.rule(box.x, zero, box.w);
    model.scores.forEach((score, key) => {
      const [x, wide] = this.place(key);
      if (score === -Infinity) return pen.hatch(x, this.top, wide, this.bottom - this.top, theme.line, 6 * u);
      const end = this.height(score),
        [y, tall] = [Math.min(end, zero), Math.abs(end - zero)],
        strength = this.strength(Math.floor(key / model.block), now);
      pen.box(x, y, wide, Math.max(1, tall), mix(theme.S, theme.ground, strength), 2);
      if (key === chosen) pen.frame(x - 2 * u, y - 2 * u, wide + 4 * u, tall + 4 * u, theme.muted, 1);
    });
    this.names(pen, box, now.tile);
    this.staircase(pen, now);
  }

  /** How strong the bars of a tile are: pale before it comes, strongest while it is at work. */
  strength(of, { tile, kind, part }) {
    if (of !== tile) return of > tile ? 0.22 : 0.5;
    return between(0.22, 1, kind === "scores" ? part : 1);
  }

  names(pen, box, tile) {
    const { narrow, u, theme } = this;
    this.model.tiles.forEach(({ first, stop }, n) => {
      const [from] = this.place(first),
        [last, wide] = this.place(stop - 1),
        here = n === tile,
        words = narrow ? `${n + 1}` : `key tile ${n + 1}${here ? " · now" : ""}`,
        middle = clamp((from + last + wide) / 2, box.x + 40 * u, box.x + box.w - 40 * u),
        style = { size: 13, weight: here ? 650 : 400, color: here ? theme.ink : theme.muted };
      if (here || last + wide - from > (narrow ? 12 : 84) * u)
        pen.centered(words, middle, this.bottom + 18 * u, style);
    });
  }

  /** The maximum over the tiles read; that of the tile that comes moves to its height. */
  staircase(pen, { tile, kind, part }) {
    const { u, theme } = pen,
      { tiles } = this.model,
      half = this.gap / 2;
    let before = null;
    for (let n = 0; n <= tile; n++) {
      const { first, stop, m } = tiles[n],
        now = n === tile,
        coming = now && kind === "scores" ? part : 1;
      if (m === -Infinity) continue;
      if (!n && coming < 0.05) return;
      const value = between(Number.isFinite(tiles[n].was) ? tiles[n].was : m, m, coming),
        level = this.height(value),
        from = this.place(first)[0] - half,
        [last, wide] = this.place(stop - 1),
        right = between(from, last + 0.25 * wide + this.pitch + half, n ? 1 : coming),
        style = { size: 13, mono: true, weight: now ? 700 : 400 };
      pen.box(from, level - 1.5 * u, right - from, 3 * u, theme.statistics, 0);
      const [high, tall] = [Math.min(before ?? level, level), Math.abs((before ?? level) - level)];
      if (before !== null) pen.box(from - 1.5 * u, high - 1.5 * u, 3 * u, tall + 3 * u, theme.statistics, 0);
      if (now || (m < tiles[n + 1].m && last + wide - from - half > 40 * u))
        pen.text(decimal(value), last + wide - 34 * u, level - 7 * u, {
          ...{ ...style, color: now ? theme.statistics : theme.muted },
        });
      before = level;
    }
  }
}

/** What a tile's weights are at a moment of it, beside those before it. */
function weightsAt({ first, stop, before, after, factor: by }, { kind, part }) {
  const shrunk = kind === "scores" ? 1 : kind === "rescale" ? by ** part : by,
    landed = { add: part, divide: 1 }[kind] ?? 0;
  return after.map((weight, key) => (key >= first && key < stop ? weight * landed : before[key] * shrunk));
}

export class WeightsPanel extends KeysPanel {
  bare = 4;

  get words() {
    return this.model.tokens;
  }

  paint(pen, box, { now }) {
    const { bottom, u, theme } = this,
      tile = this.model.tiles[now.tile],
      shrinks = tile.factor < 1 && ["rescale", "add"].includes(now.kind),
      scale = (bottom - this.top) / Math.max(1, ...tile.after, ...tile.before),
      striped = mix(theme.S, theme.ground, 0.45);
    this.heading(pen, box, [
      ["weights e^(s − m)", theme.S],
      ...(shrinks ? [["hatched: before the maximum rose", theme.muted, true]] : []),
    ]);
    pen.rule(box.x, bottom, box.w);
    weightsAt(tile, now).forEach((weight, key) => {
      const [x, wide] = this.place(key),
        [h, old] = [weight * scale, tile.before[key] * scale];
      if (shrinks && old > 1) pen.hatch(x, bottom - old, wide, old, striped, 5 * u);
      pen.box(x, bottom - h, wide, h, mix(theme.S, theme.ground, key >= tile.first ? 1 : 0.68), 2);
    });
    const style = { size: 12, color: theme.muted, align: "right", room: (this.below - 8) * u };
    (this.below > 24 ? this.words : []).forEach((words, key) => {
      const [x, wide] = this.place(key);
      pen.upwards(words, x + wide / 2 + 4 * u, bottom + 6 * u, style);
    });
    if (!shrinks) return;
    const most = Math.max(...tile.before),
      [x, wide] = this.place(tile.before.indexOf(most)),
      by = { size: 15, weight: 700, color: theme.O, halo: theme.ground };
    pen.text(`× ${factor(tile.factor)}`, x + wide + 5 * u, bottom - most * scale + 18 * u, by);
  }
}

export class OutPanel {
  paint(pen, box, { now, rescaling }) {
    const { model, u, theme } = this,
      { before, rescaled, after } = model.tiles[now.tile].out,
      { kind, part } = now,
      divided = kind === "divide",
      wrong = !rescaling && divided,
      name = divided ? "O ÷ l, the output" : "O, the output so far",
      style = { size: 15, weight: 650, color: wrong ? theme.bad : theme.O, room: box.w },
      small = { size: 11.5, color: theme.muted };
    pen.text(`${name}: ${SHOWN} of its numbers`, box.x, box.y + 16 * u, style);
    // values, what they are called, how strong they are drawn, and how much of them is there
    const columns = divided
      ? [
          [model.found, "found", 1, part],
          [model.right, "at once", 0.55, 1],
        ]
      : [
          [before, "before", 0.35, 1],
          [rescaled, "× α", 0.65, { scores: 0, rescale: part }[kind] ?? 1],
          [after, "+ tile", 1, kind === "add" ? part : 0],
        ];
    const most = Math.max(0.1, ...columns.flatMap(([values]) => values.map(Math.abs))),
      pitch = box.w / SHOWN,
      wide = Math.min(divided ? 60 * u : 34 * u, (0.78 * pitch) / columns.length),
      middle = box.y + 30 * u + (box.h - 54 * u) / 2,
      half = (box.h - 60 * u) / 2;
    pen.rule(box.x, middle, box.w);
    for (let dim = 0; dim < SHOWN; dim++)
      columns.forEach(([values, words, strength, there], n) => {
        const from = n && !divided ? columns[n - 1][0][dim] : 0,
          value = divided ? values[dim] * there : between(from, values[dim], there),
          x = box.x + 10 * u + dim * pitch + n * (wide + 4 * u),
          h = (Math.abs(value) / most) * half,
          color = mix(wrong && !n ? theme.bad : theme.O, theme.ground, strength);
        if (there > 0) pen.box(x, value < 0 ? middle : middle - h, wide, Math.max(1, h), color, 2);
        if (!this.narrow || dim === 0)
          pen.centered(words, x + wide / 2, box.y + box.h - 4 * u, { ...small, room: wide + 8 * u });
      });
  }
}

const lse = (m, l) => decimal(l ? m + Math.log(l) : -Infinity);

export class NumbersPanel {
  paint(pen, box, { now, rescaling }) {
    const { model, narrow, u, theme } = this,
      { was, m, alpha, l, out } = model.tiles[now.tile],
      shown = ["scores", "rescale", "add", "divide"].indexOf(now.kind),
      [left, right] = [box.x + 18 * u, box.x + box.w - 18 * u],
      columns = [0.44, 0.7, 1].map((part) => between(left, right, part)),
      { statistics, O, S, muted } = theme,
      of = ({ before, rescaled, after }) =>
        [before, rescaled, after].map((value) => decimal(value[0] ?? value));
    pen.box(box.x, box.y, box.w, box.h, theme.panel, 6);
    ["before", "× α", narrow ? "+ tile" : "with the tile"].forEach((words, n) =>
      pen.right(words, columns[n], box.y + 24 * u, { size: 13, color: n === 1 ? O : muted }),
    );
    const rows = [
      ["m", "running maximum", statistics, decimal(was), "", decimal(m), true],
      ["ℓ", "running sum", statistics, ...of(l), shown >= 2],
      ["α", "one factor for all", O, "", rescaling ? factor(alpha) : "1.00", "", false],
      ["O", "its first number", O, ...of(out), shown >= 2],
      ["lse", "m + log ℓ", S, lse(was, l.before), "", lse(m, l.after), shown >= 2],
    ];
    const line = (box.h - (narrow ? 64 : 116) * u) / rows.length,
      number = { size: 18, mono: true };
    rows.forEach(([name, about, color, before, scaled, after, last], n) => {
      const y = box.y + 40 * u + (n + 0.5) * line;
      pen.text(name, left, y, { size: 24, weight: 700, mono: true, color });
      if (!narrow && line > 46 * u) pen.note(about, left, y + 18 * u);
      if (now.tile) pen.right(before, columns[0], y, { ...number, color: muted });
      if (shown >= 1 && now.tile) pen.right(scaled, columns[1], y, { ...number, weight: 600, color: O });
      if (last) pen.value(after, columns[2], y);
    });
    const y = box.y + box.h - 14 * u;
    for (const [words, color, up] of this.foot(now, rescaling))
      pen.text(words, left, y - (narrow ? 0 : up) * u, {
        ...{ size: 14, room: right - left, color: theme[color] },
      });
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
