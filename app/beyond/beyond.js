// Pictures made of boxes that move, grow and fade from one frame to the next, with words at places among them.

import { FramesPlayer } from "../canvas/frames.js";
import { showing } from "../canvas/showing.js";
import { veil } from "../canvas/theme.js";

const WHOLE = 65535; // of the room, or of a colour
const FIELDS = 5; // of a box: where it is, how large, how strong
const BAR = {
  label: "Boxes",
  frame: "step",
};

class BoxesPanel {
  paint(pen, box, { at }) {
    const { model } = this,
      { theme, u } = pen,
      { boxes, tones } = model.arrays,
      { n, now, next, part } = model.at(at),
      side = Math.min(box.w, box.h - 20 * u),
      { x, y, w, h } = model.square ? { x: box.x, y: box.y + 16 * u, w: side, h: side } : box,
      many = tones.length * FIELDS,
      from = boxes.subarray(n * many, (n + 1) * many),
      to = next ? boxes.subarray((n + 1) * many, (n + 2) * many) : from;
    tones.forEach((tone, place) => {
      const value = (field) => {
        const i = place * FIELDS + field;
        return (from[i] + part * (to[i] - from[i])) / WHOLE;
      };
      const strong = value(4);
      if (strong < 0.004) return;
      const colour = veil(theme[model.names[tone]], strong);
      pen.box(x + w * value(0), y + h * value(1), w * value(2), h * value(3), colour, 2);
    });
    const { words } = part < 0.5 || !next ? now : next;
    for (const [told, left, top, tone] of words)
      pen.text(told, x + w * left, y + h * top, {
        size: 13,
        weight: 650,
        color: theme[tone],
        halo: theme.ground,
        room: box.x + box.w - x - w * left,
      });
  }
}

class BoxesPlayer extends FramesPlayer {
  static bar = BAR;
  static Picture = BoxesPanel;

  moment() {
    return { ...super.moment(), title: this.model.title };
  }
}

export default showing(BoxesPlayer, "__boxes");
