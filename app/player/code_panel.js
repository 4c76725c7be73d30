// The algorithm's lines, the one at work lit.

import { mix } from "../canvas/theme.js";
import { codeShown } from "./story.js";

export class CodePanel {
  paint(pen, box, { run, step }) {
    const { u, theme } = pen,
      [lines, lit] = codeShown(run, step),
      pitch = Math.min(18 * u, (box.h - 10 * u) / lines.length),
      longest = Math.max(...lines.map((line) => line.length)),
      size = Math.min(12.6, (pitch / u) * 0.74, (box.w / u - 14) / (0.605 * longest)),
      ground = mix(theme.S, theme.ground, theme.name === "dark" ? 0.3 : 0.24);
    pen.rule(box.x, box.y, box.w);
    lines.forEach((line, n) => {
      const y = box.y + 8 * u + n * pitch,
        look = n === lit ? { weight: 600 } : { color: theme.muted };
      if (n === lit) pen.box(box.x, y, box.w, pitch, ground, 3);
      pen.text(line, box.x + 8 * u, y + pitch * 0.72, { size, mono: true, room: box.w - 12 * u, ...look });
    });
  }
}
