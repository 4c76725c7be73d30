// From HBM by L2 to an SM: what lies in memory, pipes as wide as they are fast, and the tiles on their way through them.

import { eased, rate, traffic } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";

const SCORES = ["S", "P", "dS"],
  BY_QUERY = ["Q", "O", "dO", "dQ"];
const FORWARD = ["Q", "K", "V", "S", "P", "O"],
  BACKWARD = ["Q", "K", "V", "dO", "P", "dS", "dQ", "dK", "dV"];
const WIDEST = 62; // units: the widest pipe

export const FLIGHT_SECONDS = 0.7; // that a tile is on its way while the run plays
const MOST = 9; // tiles on their way at once: of more, every so many is shown
const RESTS_AT = 0.7; // share of the way at which a tile stands in a picture that does not move

/**
 * The loads and stores that are on their way at a moment: { step, part }, part from 0 (leaving) to 1 (there).
 * `at` is the position in the run, whose step n lasts from n + 1 to n + 2; `span` is how many steps a flight lasts, 0 in a still picture.
 */
export function flightsOf(run, at, span) {
  const now = Math.floor(at - 1),
    steps = run.transfersWithin(span ? Math.ceil(at - 1 - span) : now, now, span ? MOST : 1);
  return steps.map((step) => ({ step, part: span ? eased((at - 1 - step) / span) : RESTS_AT }));
}

/** Bytes of a tensor of one head. */
function sizeOf({ seq_q, seq_kv, head_dim, v_dim, itemsize, stored }, tensor) {
  if (SCORES.includes(tensor)) return seq_q * seq_kv * stored;
  const columns = ["V", "O"].includes(tensor) ? v_dim : head_dim;
  return (BY_QUERY.includes(tensor) ? seq_q : seq_kv) * columns * (tensor === "O" ? stored : itemsize);
}

export class MemoryPanel {
  layout({ x, y, w, h }) {
    const { u } = this,
      { HBM, L2 } = this.model.chip.memories,
      column = (from, to) => ({ x: x + from * w, y: y + 40 * u, w: (to - from) * w, h: h - 40 * u }),
      fastest = Math.max(HBM.bytes_per_second, L2.bytes_per_second),
      wide = (rate) => Math.max(2, (WIDEST * u * rate) / fastest),
      pipe = (from, to, { bytes_per_second, reached }) => ({
        ...{ x: from, w: to - from, thick: wide(bytes_per_second), reached: wide(reached) },
        words: rate(bytes_per_second),
      });
    this.hbm = column(0, 0.32);
    this.l2 = column(0.51, 0.71);
    this.middle = y + h / 2 + 20 * u;
    this.pipes = [pipe(this.hbm.x + this.hbm.w, this.l2.x, HBM), pipe(this.l2.x + this.l2.w, x + w, L2)];
  }

  paint(pen, box, { model, run, step, at, span }) {
    const { u, theme } = pen,
      { HBM, L2 } = model.chip.memories,
      places = [this.hbm, this.l2],
      flights = flightsOf(run, at, span);
    for (const [n, [words, { bytes }]] of [
      ["HBM", HBM],
      ["L2 cache", L2],
    ].entries()) {
      pen.text(words, places[n].x, box.y + 16 * u, { size: 15, weight: 600 });
      pen.note(traffic(bytes), places[n].x, box.y + 32 * u, { size: 12 });
    }
    for (const pipe of this.pipes) this.pipe(pen, pipe);
    for (const { x, y, w, h } of places) {
      pen.box(x, y, w, h, theme.panel, 5);
      pen.frame(x + 0.5, y + 0.5, w - 1, h - 1, theme.line, 1, 5);
    }
    this.contents(pen, model, run, step);
    for (const flight of flights) this.tile(pen, run, flight);
  }

  /** As thick as it is fast: its edges at most, solid as much of it as kernels reach. */
  pipe(pen, { x, w, thick, reached, words }) {
    const { middle, theme, u } = this,
      style = { size: 11.5, color: theme.muted };
    pen.box(x, middle - thick / 2, w, thick, mix(theme.muted, theme.ground, 0.16), 0);
    pen.box(x, middle - reached / 2, w, reached, mix(theme.muted, theme.ground, 0.36), 0);
    pen.centered(words, x + w / 2, middle - thick / 2 - 7 * u, style);
  }

  /** What of each tensor lies in HBM; the whole length of a bar is the largest of them. */
  contents(pen, model, run, step) {
    const { x, y, w, h } = this.hbm,
      { u } = pen,
      tensors = model.backward ? BACKWARD : FORWARD,
      sizes = tensors.map((tensor) => sizeOf(model.drawn, tensor)),
      most = Math.max(...sizes),
      pitch = Math.min(38 * u, (h - 12 * u) / tensors.length),
      start = y + (h - pitch * tensors.length) / 2;
    tensors.forEach((tensor, n) => {
      const moved = run.kinds.some(([, name]) => name === tensor),
        share = tensor in run.stored ? run.storedAt(tensor, step) : 1,
        row = { tensor, size: moved ? traffic(sizes[n]) : "never", part: sizes[n] / most, share, moved };
      this.tensorBar(pen, { x: x + 8 * u, y: start + n * pitch, w: w - 16 * u, h: pitch }, row);
    });
  }

  /** A tensor's name, its size and its bar, below them or, in a low row, beside its name. */
  tensorBar(pen, { x, y, w, h }, { tensor, size, part, share, moved }) {
    const { u, theme } = pen,
      low = h < 26 * u,
      color = moved ? theme[tensor] : theme.muted,
      thick = low ? 7 * u : Math.min(9 * u, h / 3),
      base = low ? y + h / 2 + 4 * u : y + h - thick - 6 * u,
      left = low ? x + 28 * u : x,
      top = low ? y + (h - thick) / 2 : base + 4 * u,
      long = Math.max(2, (x + w - left) * part);
    pen.text(tensor, x, base, { size: 12.5, weight: 700, color });
    if (!low || !moved) pen.right(size, x + w, base, { size: 11.5, mono: moved, color: theme.muted });
    if (!moved && low) return;
    if (!moved) return pen.dashed(left + 0.5, top + 0.5, long - 1, thick - 1, theme.muted, 1);
    pen.box(left, top, long, thick, theme.cell, 2);
    pen.box(left, top, long * share, thick, color, 2);
  }

  /** A tile at its part of the way; between HBM and L2 only as much of it as crosses there. */
  tile(pen, run, { step, part }) {
    const { hbm, l2, pipes, u, theme } = this,
      share = run.crossingOf(step),
      tensor = run.tensor(step),
      { size, lane } = this.look(run, step),
      w = 21 * u * size,
      within = l2.x + (l2.w - w) / 2,
      outside = share > 0.005 ? hbm.x + hbm.w - w : within,
      chip = pipes[1].x + pipes[1].w - w,
      [from, to] = run.operation(step) === "load" ? [outside, chip] : [chip, outside],
      x = from + part * (to - from),
      y = this.middle + lane * Math.max(0, (x - within) / (chip - within)), // lanes part on the wider way
      h = 17 * u * size * (x + w < l2.x ? Math.max(0.25, share) : 1);
    pen.box(x, y - h / 2, w, h, theme[tensor] ?? theme.statistics, 3);
    if (h < 12 * u || tensor.length > 2) return;
    pen.centered(tensor, x + w / 2, y + 4.5 * u, { size: 12, weight: 700, color: theme.ground });
  }

  /** How large a tile is beside the largest of its kernel, and how far its lane is from the middle. */
  look(run, step) {
    this.looks ??= run.phases.map((_, phase) => this.looksOf(run, phase));
    return this.looks[run.phase[step]][run.tensor(step)];
  }

  looksOf(run, phase) {
    const bytes = {};
    for (let s = run.phase.indexOf(phase); s <= run.phase.lastIndexOf(phase); s++)
      if (run.tensor(s)) bytes[run.tensor(s)] ??= run.bytesOf(s);
    const names = Object.keys(bytes),
      most = Math.max(...Object.values(bytes)),
      apart = (WIDEST - 17) / Math.max(2, names.length - 1); // units
    const look = (name, n) => ({
      size: Math.max(0.35, Math.sqrt(bytes[name] / most)),
      lane: (n - (names.length - 1) / 2) * Math.min(18, apart) * this.u,
    });
    return Object.fromEntries(names.map((name, n) => [name, look(name, n)]));
  }
}
