// The memories of a GPU: their sizes as areas, the ways between them as thick as they are fast, and bytes that pass at one speed.

import { clamp, grouped, inKib, rate, times, traffic } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { NARROW, roomUnit } from "../canvas/stage.js";
import { mix } from "../canvas/theme.js";
import { CanvasView } from "../canvas/view.js";

const PACE = 46; // px a second at which bytes pass: the same in every pipe, so that thickness alone makes the difference
const APART = 30,
  LANE = 8; // px between bytes one after another, and beside each other
const LARGEST = 0.6; // share of the height that the side of the largest square takes

export class MemoriesView extends CanvasView {
  constructor(parent) {
    super(parent.querySelector(".memories"), 0);
    this.seen = new IntersectionObserver(([{ isIntersecting }]) => this.run(isIntersecting));
    this.seen.observe(this.stage.canvas);
  }

  release() {
    super.release();
    this.seen.disconnect();
  }

  update(data) {
    super.update(data);
    const told = data.memories.map(
      ({ name, bytes, bytes_per_second: speed }) =>
        `${name} ${traffic(bytes)}${speed ? ` at ${rate(speed)}` : ""}`,
    );
    this.stage.canvas.setAttribute("aria-label", `The memories of ${data.gpu}: ${told.join(", ")}.`);
    this.root.querySelector(".about").textContent = about(data.memories);
  }

  /** Bytes pass while the picture is on the screen, unless its reader asks for less motion. */
  run(visible) {
    if (visible && !this.clock.calm.matches) this.clock.start();
    else this.clock.stop();
  }

  unit(width) {
    return Math.max(clamp(width / 1100, width < NARROW ? 14 / 12 : 1, 1.5), roomUnit(this.root));
  }

  /** The squares from HBM to the registers, each from where to where along the picture, how large they are, and where their middle is. */
  places(width, height, u) {
    const across = width >= NARROW,
      memories = [...this.data.memories].reverse(),
      [hbm] = memories,
      long = across ? width : height,
      side = LARGEST * Math.min(across ? height : width * 0.5, long / 4.6),
      enlarged = enlargedOf(this.data.memories);
    const sides = memories.map(({ bytes }, n) => side * Math.sqrt((bytes / hbm.bytes) * (n ? enlarged : 1)));
    const gap = (long - sides.reduce((sum, one) => sum + one, 0) - 8) / (memories.length - 1);
    let at = 4;
    const squares = memories.map((memory, n) => {
      const square = { memory, from: at, side: sides[n], dot: side * Math.sqrt(memory.bytes / hbm.bytes) };
      at += sides[n] + gap;
      return square;
    });
    return { across, squares, middle: across ? height / 2 + 26 * u : width * 0.2, side, width };
  }

  paint(pen, width, height) {
    const { theme, u } = pen,
      place = this.places(width, height, u),
      { across, squares, middle, side } = place;
    const fastest = Math.max(...this.data.memories.map((memory) => memory.bytes_per_second ?? 0));
    place.box = (from, long, thick) =>
      across ? [from, middle - thick / 2, long, thick] : [middle - thick / 2, from, thick, long];
    squares.slice(0, -1).forEach(({ memory, from, side: long }, n) => {
      const start = from + long,
        length = squares[n + 1].from - start,
        thick = (0.5 * side * memory.bytes_per_second) / fastest,
        words = rate(memory.bytes_per_second),
        look = { size: 13, mono: true, weight: 600 };
      pen.box(...place.box(start, length, thick), mix(theme.muted, theme.ground, 0.2), 0);
      this.bytes(pen, place, start, length, thick);
      if (across) pen.centered(words, start + length / 2, middle - thick / 2 - 8 * u, look);
      else pen.text(words, middle + thick / 2 + 8 * u, start + length / 2 + 4 * u, look);
    });
    for (const square of squares) this.square(pen, square, place);
  }

  /** Bytes on their way through a pipe: evenly spaced, lanes a little apart from each other. */
  bytes(pen, { box, across }, start, length, thick) {
    const lanes = Math.max(1, Math.floor(thick / LANE)),
      dot = 3.5,
      color = mix(pen.theme.S, pen.theme.ground, 0.8);
    for (let lane = 0; lane < lanes; lane++) {
      const shift = (this.moment * PACE + lane * 0.618 * APART) % APART,
        aside = (lane - (lanes - 1) / 2) * (thick / lanes);
      for (let at = shift; at < length - dot; at += APART) {
        const [x, y, w, h] = box(start + at, dot, dot);
        pen.box(x + (across ? 0 : aside), y + (across ? aside : 0), w, h, color, 2);
      }
    }
  }

  square(pen, { memory, from, side, dot }, { box, across, middle, width, squares: [first] }) {
    const { theme, u } = pen,
      hbm = memory === first.memory,
      [x, y, w, h] = box(from, side, side);
    pen.box(x, y, w, h, mix(hbm ? theme.muted : theme.S, theme.ground, 0.26), 4);
    pen.frame(x + 0.5, y + 0.5, w - 1, h - 1, hbm ? theme.muted : theme.S, 1.2, 4);
    if (!hbm && memory.parts === 1) {
      const tiny = Math.max(2, dot),
        [hx, hy, hw, hh] = box(first.from, first.side, first.side);
      pen.box(hx + hw / 2 - tiny / 2, hy + hh / 2 - tiny / 2, tiny, tiny, theme.S, 0);
    }
    const lines = [
      [memory.name, { size: 15, weight: 700 }],
      [traffic(memory.bytes), { size: 13, mono: true }],
    ];
    const each = `${grouped(memory.parts)} × ${inKib(memory.bytes / memory.parts)}`;
    if (memory.parts > 1) lines.push([each, { size: 12, color: theme.muted }]);
    const aside = clamp(x + w / 2, 60 * u, width - 60 * u); // where words stay inside
    lines.forEach(([words, style], n) => {
      if (across) pen.centered(words, aside, middle - first.side / 2 - (56 - 17 * n) * u, style);
      else pen.right(words, width - 4, y + h / 2 + (n * 17 - 8) * u, style);
    });
  }
}

/** How much what lies on the chip is enlarged, all of it alike: until the largest is as large as HBM, which comes last. */
const enlargedOf = (memories) =>
  memories.at(-1).bytes / Math.max(...memories.slice(0, -1).map(({ bytes }) => bytes));

/** How the picture is read. */
export function about(memories) {
  const faster = times(memories.at(-2).bytes_per_second / memories.at(-1).bytes_per_second);
  return (
    `HBM is ${grouped(enlargedOf(memories))} times as large as L2; the dot in it shows L2 at HBM's scale, and ` +
    `the areas on the chip are to one scale of their own. Bytes pass at one speed, so the pipe from L2, ${faster} times as thick as that from HBM, ` +
    "brings as many times the bytes per second. What one SM has is in KiB of 1,024 bytes. Rates are peaks; no data sheet states L2's."
  );
}

const show = showing(MemoriesView);
export default show;
