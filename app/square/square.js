// One canvas, one clock: a square of scores at several sizes, from each of which it moves to the next.

import { between } from "../canvas/format.js";
import { showingFrames } from "../canvas/frames.js";
import { mix } from "../canvas/theme.js";

const SCORES = 32; // of a side, so many of which are drawn one by one
const LABELLED = 26; // units of a side that has room for its length
const BAR = {
  label: "A square of scores",
  frame: "size",
};

class SquarePanel {
  paint(pen, box, { at }) {
    const { model, theme, u } = this,
      room = 26 * u, // of K and V above, or of nothing
      side = Math.min(box.w - room, box.h - room),
      [x, y] = [box.x + room, box.y + room],
      draw = model.cut ? this.bands : this.nested;
    pen.within({ x, y, w: side, h: side }, () => draw.call(this, pen, { x, y, side }, model.at(at)));
    pen.frame(x, y, side, side, theme.line, 1, 2);
    pen.centered("keys", x + side / 2, y - 8 * u, { size: 13, color: theme.K });
    pen.text("Q", box.x + 6 * u, y + side / 2, { size: 13, color: theme.Q });
  }

  /** Every size within the next, on a scale that shrinks while it grows. */
  nested(pen, { x, y, side }, { now, next, part }) {
    const { theme, u } = pen,
      scale = between(Math.log2(now.size), Math.log2((next ?? now).size), part),
      style = { size: 13, mono: true, weight: 600, halo: theme.ground };
    for (const frame of [...this.model.frames].reverse()) {
      const long = side * 2 ** (Math.log2(frame.size) - scale),
        strength = frame === now ? 0.85 : frame === next ? 0.3 : 0.5;
      if (long > 40 * side || long < 1) continue;
      pen.box(x, y, long, long, mix(theme.S, theme.ground, strength), 0);
      pen.frame(x, y, long, long, theme.ground, 1, 0);
      if (frame.size <= SCORES && long / frame.size >= 5)
        pen.grid({ x, y, w: long, h: long }, frame.size, frame.size, theme.ground);
      if (long > LABELLED * u && long < 1.02 * side)
        pen.right(frame.mark, x + long - 6 * u, y + long - 8 * u, style);
    }
  }

  /** Bands of queries; each has read K and V once, and two become one on the way to the next size. */
  bands(pen, { x, y, side }, { now, next, part }) {
    const { theme, u } = pen,
      count = between(now.size, (next ?? now).size, part),
      pitch = side / count,
      thick = Math.min(5 * u, 0.28 * pitch);
    pen.box(x, y, side, side, mix(theme.S, theme.ground, 0.25), 0);
    for (let n = 0; n < count; n++) {
      const top = y + n * pitch;
      pen.box(x, top, side, 1, theme.ground, 0);
      pen.box(x + 4 * u, top + 0.2 * pitch, side - 8 * u, thick, theme.K, 2);
      pen.box(x + 4 * u, top + 0.2 * pitch + 1.25 * thick, side - 8 * u, thick, theme.V, 2);
    }
  }
}

export default showingFrames(SquarePanel, BAR, "__square");
