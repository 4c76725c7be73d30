// One canvas, one clock: a square of scores at several sizes, from each of which it moves to the next.

import { showingFrames } from "../canvas/frames.js";
import { mix } from "../canvas/theme.js";

const SCORES = 32; // of a side, so many of which are drawn one by one
const LABELLED = 26; // units of a side that has room for its length
const BAR = {
  label: "A square of scores",
  slider: "Size",
  frame: "size",
  speeds: [0.5, 1, 2, 4],
  arrows: "to the size before, or next",
  guide: {
    square: "all scores of one head: queries downwards, keys to the right",
    "a band": "a block of queries: it reads all of K and V",
  },
};

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

const show = showingFrames(SquarePanel, BAR, "__square");
export default show;
