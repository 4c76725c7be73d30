// Bytes by tensor up to a moment: the kernel's own as bars, FlashAttention-2's whole run as a line across each.

import { traffic } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";

const NAMED = ["Q", "K", "V", "O"];
const MOST_ROWS = 8;

export class BytesPanel {
  layout() {
    const { model } = this,
      { own, flash2 } = model;
    const named = NAMED.filter((name) => flash2 || own.totals.has(name)),
      totals = model.runs.flatMap((run) => [...run.totals.values()]);
    this.names = [...new Set([...named, ...own.totals.keys()])].slice(0, MOST_ROWS);
    this.most = Math.max(1, ...totals.map(({ read, written }) => read + written));
  }

  paint(pen, box, { position }) {
    const { own, flash2 } = this.model,
      { u, theme } = pen,
      now = own.moved(position),
      pitch = Math.min((flash2 ? 26 : 44) * u, (box.h - 26 * u) / this.names.length),
      high = Math.min((flash2 ? 15 : 28) * u, pitch - 5 * u),
      left = box.x + 62 * u,
      right = box.x + box.w,
      room = box.w - 234 * u,
      narrow = box.w < 460 * u, // where both would run into one another
      title = flash2 && !narrow ? "Bytes of this head so far, counted" : "Bytes so far, counted",
      meant = narrow ? "line and ( ): FlashAttention-2" : "line, and in brackets: FlashAttention-2",
      wide = (size) => (room * size) / this.most;
    pen.text(title, box.x, box.y + 13 * u, { size: 13, weight: 650 });
    if (flash2) pen.right(meant, right, box.y + 13 * u, { size: 12, color: theme.muted });
    this.names.forEach((name, n) => {
      const y = box.y + 24 * u + n * pitch,
        base = y + high / 2 + 4.5 * u,
        { read, written } = now.get(name) ?? { read: 0, written: 0 },
        whole = flash2?.totals.get(name),
        all = whole && whole.read + whole.written,
        color = theme[name] ?? theme.muted;
      pen.text(name, box.x, base, { size: 12.5, weight: 650, color, room: 58 * u });
      pen.box(left, y, room, high, mix(theme.cell, theme.ground, 0.6), 2);
      pen.box(left, y, wide(read), high, mix(color, theme.ground, 0.8), 2);
      pen.box(left + wide(read), y, wide(written), high, color, 2);
      if (whole) pen.box(left + wide(all) - u, y - 3 * u, 2 * u, high + 6 * u, theme.ink, 0);
      const beside = whole ? ` (${traffic(all)})` : "";
      pen.right(traffic(read + written) + beside, right, base, { size: 12, mono: true });
    });
  }
}
