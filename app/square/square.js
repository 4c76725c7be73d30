// One canvas, one clock: a square of scores at several sizes, from each of which it moves to the next.

import { clamp } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { NARROW } from "../canvas/stage.js";
import { mix } from "../canvas/theme.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { unpack } from "../canvas/unpack.js";

const FRAME = 2.5; // seconds from one size to the next
const SCORES = 32; // of a side, so many of which are drawn one by one
const ROW = 56,
  COLUMN = 190; // units of a fact: its height and its width at least
const LABELLED = 26; // units of a side that has room for its length
const BAR = {
  label: "A square of scores",
  slider: "Size",
  speeds: [0.5, 1, 2, 4],
  arrows: "to the size before, or next",
  guide: {
    square: "all scores of one head: queries downwards, keys to the right",
    "a band": "a block of queries: it reads all of K and V",
  },
};

class Square {
  constructor(bytes) {
    Object.assign(this, unpack(bytes).header);
    this.longest = this.frames.length - 1;
  }

  /** The frame at a place, the next, and how far it is on its way there. */
  at(place) {
    const n = clamp(Math.floor(place), 0, this.longest),
      part = place - n;
    return { n, now: this.frames[n], next: this.frames[n + 1], part: part * part * (3 - 2 * part) };
  }
}

class SquarePanel {
  follows = ["at"];

  paint(pen, box, { at }) {
    const { model } = this,
      room = 26 * pen.u, // of K and V above, or of nothing
      side = Math.min(box.w - room, box.h - room),
      square = { x: box.x + room, y: box.y + room, side },
      { ctx } = pen;
    ctx.save();
    ctx.beginPath();
    ctx.rect(square.x, square.y, side, side);
    ctx.clip();
    if (model.cut) this.bands(pen, square, model.at(at));
    else this.nested(pen, square, model.at(at));
    ctx.restore();
    const { theme, u } = pen;
    pen.frame(square.x, square.y, side, side, theme.line, 1, 2);
    pen.centered("keys", square.x + side / 2, square.y - 8 * u, { size: 13, color: theme.K });
    pen.text("Q", box.x + 6 * u, square.y + side / 2, { size: 13, color: theme.Q });
  }

  /** Every size within the next, on a scale that shrinks while it grows. */
  nested(pen, { x, y, side }, { now, next, part }) {
    const { theme, u } = pen,
      log = Math.log2,
      scale = log(now.size) + (next ? part * (log(next.size) - log(now.size)) : 0);
    for (const frame of [...this.model.frames].reverse()) {
      const long = side * 2 ** (log(frame.size) - scale);
      if (long > 40 * side || long < 1) continue;
      const here = frame === now;
      pen.box(x, y, long, long, mix(theme.S, theme.ground, here ? 0.85 : frame === next ? 0.3 : 0.5), 0);
      pen.frame(x, y, long, long, theme.ground, 1, 0);
      if (frame.size <= SCORES) this.scores(pen, x, y, long, frame.size);
      if (long > LABELLED * u && long < 1.02 * side)
        pen.right(frame.mark, x + long - 6 * u, y + long - 8 * u, {
          size: 13,
          mono: true,
          weight: 600,
          halo: theme.ground,
        });
    }
  }

  scores({ ctx, theme }, x, y, long, count) {
    const pitch = long / count;
    if (pitch < 5) return;
    ctx.fillStyle = theme.ground;
    for (let n = 1; n < count; n++) {
      ctx.fillRect(x + n * pitch - 0.5, y, 1, long);
      ctx.fillRect(x, y + n * pitch - 0.5, long, 1);
    }
  }

  /** Bands of queries; each has read K and V once, and two become one on the way to the next size. */
  bands(pen, { x, y, side }, { now, next, part }) {
    const { theme, u } = pen,
      count = next ? now.size + part * (next.size - now.size) : now.size,
      pitch = side / count;
    pen.box(x, y, side, side, mix(theme.S, theme.ground, 0.25), 0);
    for (let n = 0; n < count; n++) {
      const top = y + n * pitch,
        thick = Math.min(5 * u, 0.28 * pitch);
      pen.box(x, top, side, 1, theme.ground, 0);
      pen.box(x + 4 * u, top + 0.2 * pitch, side - 8 * u, thick, theme.K, 2);
      pen.box(x + 4 * u, top + 0.2 * pitch + 1.25 * thick, side - 8 * u, thick, theme.V, 2);
    }
  }
}

class FactsPanel {
  follows = ["at"];

  paint(pen, box, { at }) {
    const { model } = this,
      { u, theme } = pen,
      { facts } = model.frames[Math.round(at)],
      columns = box.h < ROW * facts.length * u && box.w > 2 * COLUMN * u ? 2 : 1,
      wide = box.w / columns,
      line = Math.min(76 * u, (box.h - 20 * u) / Math.ceil(facts.length / columns));
    facts.forEach(([name, words, color], n) => {
      const x = box.x + (n % columns) * wide,
        y = box.y + (Math.floor(n / columns) + 0.25) * line;
      pen.text(name, x, y, { size: 14, color: theme.muted, room: wide });
      pen.text(words, x, y + 27 * u, { size: 24, weight: 700, mono: true, color: theme[color], room: wide });
    });
    pen.note(model.note, box.x, box.y + box.h - 6 * u, { room: box.w });
  }
}

class SquarePlayer extends TimedPlayer {
  static bar = BAR;
  static Model = Square;

  eventBeside(by) {
    return by > 0 ? Math.floor(this.at) + 1 : Math.ceil(this.at) - 1;
  }

  passing(seconds) {
    return (seconds * this.speed) / FRAME;
  }

  layout() {
    const { width: w, height: h, u } = this.stage,
      narrow = w < NARROW,
      side = narrow ? w : Math.min(0.6 * w, h),
      facts = narrow
        ? { x: 0, y: 0.52 * h, w, h: 0.48 * h }
        : { x: side + 40 * u, y: 20 * u, w: w - side - 40 * u, h: h - 20 * u };
    return [
      [SquarePanel, { x: 0, y: 0, w: side, h: narrow ? 0.5 * h : h }],
      [FactsPanel, facts],
    ];
  }

  moment() {
    const { at, model } = this,
      { n, now, next, part } = model.at(at),
      shown = next && part > 0.5 ? next : now;
    return {
      view: { at },
      title: "A square of scores",
      sentence: shown.sentence,
      where: `size ${n + 1} of ${model.frames.length}`,
      length: "",
    };
  }
}

const show = showing(SquarePlayer, "__square");
export default show;
