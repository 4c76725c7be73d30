// Pictures made of boxes that move, grow and fade from one frame to the next, with words at places among them.

import { between } from "../canvas/format.js";
import { FramesPlayer, STATE } from "../canvas/frames.js";
import { mix, veil } from "../canvas/theme.js";
import { showing } from "../canvas/view.js";

const WHOLE = 65535; // of the room, or of a colour
const FIELDS = 5; // of a box: where it is, how large, how strong
const ABOVE = 20; // units above a square, for words

class ShapesPanel {
  paint(pen, box, { at }) {
    const { model } = this,
      { theme, u } = pen,
      { boxes, tones } = model.arrays,
      { n, next, part } = model.at(at),
      side = Math.min(box.w, box.h - ABOVE * u),
      room = model.square ? { x: box.x, y: box.y + ABOVE * u, w: side, h: side } : box,
      { x, y, w, h } = room,
      many = tones.length * FIELDS,
      from = boxes.subarray(n * many, (n + 1) * many),
      to = next ? boxes.subarray((n + 1) * many, (n + 2) * many) : from;
    for (const [tone, points] of model.lines ?? [])
      pen.line(
        points.flatMap(([left, top]) => [x + w * left, y + h * top]),
        theme[tone],
        2.5 * u,
      );
    tones.forEach((tone, place) => {
      const value = (field) =>
          between(from[place * FIELDS + field], to[place * FIELDS + field], part) / WHOLE,
        strong = value(4),
        color = theme[model.names[tone]];
      if (strong < 0.004) return;
      const shade = model.opaque ? mix(color, theme.ground, strong) : veil(color, strong);
      pen.box(x + w * value(0), y + h * value(1), w * value(2), h * value(3), shade, 2);
    });
    this.words(pen, room, box.x + box.w, model.at(at));
  }

  /** Those of the nearer frame; where the other says the same they move. */
  words(pen, { x, y, w, h }, edge, { now, next = now, part }) {
    const { theme } = pen;
    (part < 0.5 ? now : next).words.forEach((own, n) => {
      const [told, , , tone, align = "left"] = own,
        [[, left, top], [, left1, top1]] = [now, next].map(({ words }) =>
          words[n]?.[0] === told ? words[n] : own,
        ),
        at = x + w * between(left, left1, part),
        room = align === "left" ? edge - at : 0;
      pen.text(told, at, y + h * between(top, top1, part), {
        ...{ size: 13, weight: 650, color: theme[tone], halo: theme.ground, room, align },
      });
    });
  }
}

class ShapesPlayer extends FramesPlayer {
  static bar = { label: "Step by step", state: STATE, frame: "step" };
  static Picture = ShapesPanel;

  moment() {
    return { ...super.moment(), title: this.model.title };
  }
}

export default showing(ShapesPlayer);
