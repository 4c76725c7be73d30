// What the chip holds at a step, and how much of it that takes.

import { clamp, inKib, subscript, traffic } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { onChip } from "./on_chip.js";
import { NONE } from "./run.js";

export class ChipPanel {
  follows = ["run", "step"];

  paint(pen, box, { model, run, step }) {
    const { u } = pen,
      tiles = onChip(run, step);
    const parts = run
      .phaseAt(step)
      .parts.map(([label, tensor, bytes, inRegisters]) => ({ label, tensor, bytes, inRegisters }));
    const shared = parts.filter(({ inRegisters }) => !inRegisters);
    const held = shared.reduce((total, part) => total + (tiles[part.tensor] ? part.bytes : 0), 0);
    const whole = shared.reduce((total, part) => total + part.bytes, 0);
    this.heading(pen, box, model.chip, held, whole);
    const gap = parts.length > 7 ? 3 * u : 5 * u,
      least = Math.min(20 * u, (box.h - 54 * u) / parts.length - gap); // a tile with its name
    const room = box.h - 98 * u - (least + gap) * parts.length; // a heading above, two lines below
    const weights = parts.map((part) => Math.sqrt(part.bytes / Math.max(...parts.map((p) => p.bytes))));
    const unit = clamp(room / weights.reduce((a, b) => a + b, 0), 0, 36 * u);
    let y = box.y + 50 * u;
    parts.forEach((part, n) => {
      const h = least + unit * weights[n];
      this.tile(pen, { x: box.x, y, w: box.w, h }, part, this.name(part, run, step), tiles[part.tensor]);
      y += h + gap;
    });
    this.moral(pen, box, y, model, run, parts, whole <= model.chip.capacity);
  }

  /** What becomes of S and P, the matrices that the algorithms differ in. */
  moral(pen, box, y, { drawn }, run, parts, fits) {
    const size = traffic(drawn.seq_q * drawn.seq_kv * drawn.stored),
      style = { size: 12.5, color: fits ? pen.theme.muted : pen.theme.bad, room: box.w };
    const inRegisters = !parts.some(({ tensor }) => tensor === "S");
    const lines = !fits
      ? [`These tiles are too big: choose`, `smaller blocks or head dimension.`]
      : run.unfused
        ? [`S and P live in HBM, ${size} each,`, "and pass through here tile by tile."]
        : run.rows === "gradients"
          ? ["P and dS are recomputed here, so", `HBM never sees their ${size} each.`]
          : inRegisters
            ? ["S, O, m and l are in registers, so", `HBM sees no S or P, ${size} each.`]
            : ["S and P never leave the chip, so", `HBM never sees their ${size} each.`];
    if (y + 44 * pen.u > box.y + box.h) return;
    lines.forEach((line, n) => pen.text(line, box.x, y + (20 + 18 * n) * pen.u, style));
  }

  heading(pen, box, chip, held, whole) {
    const { u, theme } = pen,
      fits = whole <= chip.capacity;
    const y = box.y + 16 * u,
      style = { size: 11.5, mono: true, align: "right", color: fits ? theme.muted : theme.bad };
    const amount = `${inKib(fits ? held : whole).replace(" KiB", "")} of ${inKib(chip.capacity)}`,
      width = pen.text(amount, box.x + box.w, y, style);
    const whose = box.w < 275 * u ? "One SM" : `One of ${chip.sms} SMs`;
    pen.text(`${whose}, modelled`, box.x, y, { size: 12.5, weight: 600, room: box.w - width - 4 * u });
    const bar = { x: box.x, y: box.y + 27 * u, w: box.w, h: 9 * u };
    const part = (bytes) => bar.w * Math.min(1, bytes / chip.capacity);
    pen.box(bar.x, bar.y, bar.w, bar.h, theme.cell, 4);
    pen.box(bar.x, bar.y, part(whole), bar.h, mix(fits ? theme.muted : theme.bad, theme.cell, 0.4), 4);
    pen.box(bar.x, bar.y, part(held), bar.h, fits ? theme.muted : theme.bad, 4);
  }

  name(part, run, step) {
    if (!run.has(step)) return part.label;
    const i = run.query[step],
      j = run.key[step];
    if (part.label !== part.tensor && part.tensor !== "delta") return part.label;
    const at = { Q: i, O: i, K: j, V: j, dO: i, dQ: i, dK: j, dV: j, lse: i, delta: i }[part.tensor];
    if (at !== undefined) return part.label + (at === NONE ? "" : subscript(at));
    return part.label + (i === NONE || j === NONE ? "" : `${subscript(i)},${subscript(j)}`);
  }

  tile(pen, { x, y, w, h }, part, name, words) {
    const { u, theme } = pen,
      color = theme[part.tensor],
      dark = theme.name === "dark";
    if (words) pen.box(x, y, w, h, mix(color, theme.ground, dark ? 0.24 : 0.2), 4);
    else pen.frame(x + 0.5, y + 0.5, w - 1, h - 1, theme.line, 1, 4);
    pen.box(x, y, 4 * u, h, words ? color : theme.line, 2);
    const base = y + h / 2 + 5 * u,
      tall = h / u; // in a low tile type is smaller
    const look = { mono: true, color: words ? theme.ink : theme.muted },
      label = pen.text(name, x + 14 * u, base, { size: Math.min(15, tall), weight: 700, ...look }),
      size = pen.right(inKib(part.bytes), x + w - 9 * u, base, { size: 12.5, ...look });
    const from = x + 14 * u + Math.max(label + 10 * u, 52 * u);
    const room = x + w - 9 * u - size - 8 * u - from,
      facts = [words || "free", ...(part.inRegisters ? ["registers"] : [])];
    if (room > 30 * u) pen.note(facts, from, base, { room });
  }
}
