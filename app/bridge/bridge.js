// One canvas, one clock: each reason takes its slice of the time, while the call walks under the roofline.

import { between, clamp } from "../canvas/format.js";
import { showingFrames } from "../canvas/frames.js";
import { veil } from "../canvas/theme.js";

const BAR = {
  label: "From fewer bytes to less time",
  frame: "reason",
};

const LOW = 420; // units of height that have room for the roofline below the bars

class BridgePanel {
  paint(pen, box, { at }) {
    const { u } = pen,
      beside = box.h < LOW * u && !this.narrow, // for want of room below
      wide = beside ? 0.5 * box.w - 20 * u : box.w,
      high = beside ? box.h : Math.min(0.5 * box.h, 250 * u),
      x = box.x + (beside ? wide + 56 * u : 16 * u),
      y = box.y + (beside ? 34 * u : high + 34 * u);
    this.bars(pen, { ...box, w: wide, h: high }, at);
    this.roof(pen, { x, y, w: box.x + box.w - x - 14 * u, h: box.y + box.h - y - 26 * u }, at);
  }

  bars(pen, { x, y, w, h }, at) {
    const { theme, model, u } = this,
      { frames } = model,
      pitch = h / frames.length,
      scale = (w - 4 * u) / frames[0].end;
    frames.forEach(({ name, start, end, color, words }, n) => {
      const done = clamp(at - n + 1, 0, 1),
        top = y + n * pitch,
        thick = pitch - 24 * u;
      if (!done) return;
      pen.heading(n > 1 ? `+ ${name}` : name, done === 1 ? words : "", x, top + 14 * u, w);
      pen.box(x, top + 19 * u, w, thick, theme.panel, 2);
      const wide = Math.max(2, (end - start) * scale * done);
      pen.box(x + start * scale, top + 19 * u, wide, thick, theme[color], 2);
      if (n > 1 && done === 1)
        pen.box(x + end * scale - 0.5, top + 19 * u, 1, thick + 24 * u, veil(theme.ink, 0.4), 0);
    });
  }

  /** Both axes in powers of ten; the point keeps a trace of the way that it has come. */
  roof(pen, { x, y, w, h }, at) {
    const { theme, model, u } = this,
      { frames, peak, memory } = model,
      log = Math.log10,
      of = (name) => frames.map((each) => log(each[name])),
      ridge = log(peak / memory),
      [left, right] = [Math.min(...of("intensity"), ridge) - 0.3, Math.max(...of("intensity"), ridge) + 0.3],
      [low, most] = [Math.min(...of("rate")) - 0.3, Math.max(...of("rate"), log(peak)) + 0.2],
      X = (value) => x + (w * (value - left)) / (right - left),
      Y = (value) => y + (h * (most - value)) / (most - low),
      line = (points, color, width) =>
        pen.line(
          points.flatMap(([a, b]) => [X(a), Y(b)]),
          color,
          width * u,
        ),
      point = ([a, b], r, color) => pen.box(X(a) - r, Y(b) - r, 2 * r, 2 * r, color, r),
      roof = log(peak),
      [first, last] = [left, right].map((value) => [value, value + log(memory)]),
      ends = [ridge, roof],
      style = { size: 13, color: theme.muted },
      { n, now, next, part } = model.at(at),
      place = (name) => between(log(now[name]), log((next ?? now)[name]), part),
      here = [place("intensity"), place("rate")],
      trace = frames.slice(0, n + 1).map(({ intensity, rate }) => [log(intensity), log(rate)]),
      pale = veil(theme.O, 0.5);
    pen.within({ x, y: y - 4 * u, w, h: h + 8 * u }, () => {
      pen.box(x, y, w, h, theme.panel, 3);
      line([ends, last], veil(theme.muted, 0.35), 2);
      line([first, ends, [right, roof]], theme.muted, 3);
      pen.right("peak of the tensor cores", x + w - 8 * u, Y(roof) - 8 * u, style);
      pen.text("peak of HBM", X(left) + 26 * u, Math.min(Y(first[1]) + 22 * u, y + h - 7 * u), style);
      line([...trace, here], pale, 2);
      for (const each of trace) point(each, 4 * u, pale);
      point(here, 8 * u, theme.O);
    });
    pen.text("FLOPs per second", x - 16 * u, y - 10 * u, { size: 14, weight: 650 });
    pen.right("FLOPs per byte across HBM", x + w, y + h + 17 * u, { size: 12.5, color: theme.muted });
  }
}

export default showingFrames(BridgePanel, BAR, "__bridge", true);
