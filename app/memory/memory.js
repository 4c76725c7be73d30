// The memories of a GPU: their sizes as areas, the ways between them as thick as they are fast, and bytes that pass at one speed.

import { grouped, rate, times, traffic } from "../canvas/format.js";
import { Pen } from "../canvas/pen.js";
import { showing } from "../canvas/showing.js";
import { NARROW, roomUnit } from "../canvas/stage.js";
import { mix } from "../canvas/theme.js";
import { View } from "../canvas/view.js";

const PACE = 46; // px a second at which bytes pass: the same in every pipe, so that thickness alone makes the difference
const APART = 30,
  LANE = 8; // px between bytes one after another, and beside each other
const LARGEST = 0.6; // share of the height that the side of the largest square takes

class MemoriesView extends View {
  constructor(parent) {
    const root = parent.querySelector(".memories"),
      canvas = root.querySelector("canvas");
    super(root, canvas, 0);
    Object.assign(this, { canvas, passed: 0 });
    this.seen = new IntersectionObserver(([{ isIntersecting }]) => this.run(isIntersecting));
    this.seen.observe(this.canvas);
  }

  release() {
    super.release();
    this.seen.disconnect();
  }

  update(data) {
    this.dress(data.palettes);
    this.data = data;
    this.fit();
  }

  /** Bytes pass while the picture is on the screen, unless its reader asks for less motion. */
  run(visible) {
    if (visible && !this.clock.calm.matches) this.clock.start();
    else this.clock.stop();
  }

  advance(seconds) {
    this.passed += seconds * PACE;
    this.paint();
  }

  fit() {
    const { width, height } = this.canvas.getBoundingClientRect(),
      dpr = window.devicePixelRatio || 1;
    if (!this.data || !width) return;
    Object.assign(this, { width, height });
    this.canvas.width = Math.round(width * dpr);
    this.canvas.height = Math.round(height * dpr);
    const ctx = this.canvas.getContext("2d");
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    const unit = Math.max(Math.min(1.5, Math.max(1, width / 1100)), roomUnit(this.root));
    this.pen = new Pen(ctx, this.theme, unit);
    this.canvas.setAttribute("aria-label", this.words());
    this.root.querySelector(".about").textContent = this.about();
    this.paint();
  }

  words() {
    const { gpu, memories } = this.data;
    const told = memories.map(
      ({ name, bytes, bytes_per_second: speed }) =>
        `${name} ${traffic(bytes)}${speed ? ` at ${rate(speed)}` : ""}`,
    );
    return `The memories of ${gpu}: ${told.join(", ")}.`;
  }

  /** How the picture is read. */
  about() {
    const { squares, enlarged } = this.places(),
      [{ memory: hbm }, { memory: l2 }] = squares;
    const faster = times(l2.bytes_per_second / hbm.bytes_per_second);
    return (
      `Areas are to scale: those on the chip are enlarged ${grouped(enlarged)} times, and the dot in HBM is L2 ` +
      `without that. Bytes pass at one speed, so the pipe from L2, ${faster} times as thick as that from HBM, ` +
      "brings as many times the bytes per second. Rates are peaks; the sidebar names the source of L2's."
    );
  }

  /** The squares from HBM to the registers, and the pipes between them. */
  places() {
    const { width, height, data, pen } = this,
      across = width >= NARROW,
      memories = [...data.memories].reverse(),
      [hbm, ...near] = memories;
    const long = across ? width : height,
      side = LARGEST * Math.min(across ? height : width * 0.5, long / 4.6);
    // what lies on the chip is enlarged, all of it alike, until the largest is as large as HBM
    const enlarged = hbm.bytes / Math.max(...near.map(({ bytes }) => bytes));
    const sides = memories.map(({ bytes }, n) => side * Math.sqrt((bytes / hbm.bytes) * (n ? enlarged : 1)));
    const gap = (long - sides.reduce((sum, one) => sum + one, 0) - 8) / (memories.length - 1);
    let at = 4;
    const squares = memories.map((memory, n) => {
      const square = { memory, from: at, side: sides[n], dot: side * Math.sqrt(memory.bytes / hbm.bytes) };
      at += sides[n] + gap;
      return square;
    });
    const middle = across ? height / 2 + 26 * pen.u : width * 0.2;
    return { across, squares, enlarged, middle, side };
  }

  paint() {
    const { pen, theme, width, height, data } = this,
      { u } = pen,
      { across, squares, middle, side } = this.places();
    pen.ctx.clearRect(0, 0, width, height);
    const fastest = Math.max(...data.memories.map((memory) => memory.bytes_per_second ?? 0)),
      box = (from, long, thick) =>
        across ? [from, middle - thick / 2, long, thick] : [middle - thick / 2, from, thick, long];
    squares.slice(0, -1).forEach(({ memory, from, side: long }, n) => {
      const start = from + long,
        length = squares[n + 1].from - start,
        thick = (0.5 * side * memory.bytes_per_second) / fastest;
      pen.box(...box(start, length, thick), mix(theme.muted, theme.ground, 0.2), 0);
      this.bytes(box, start, length, thick);
      const place = across
        ? [start + length / 2, middle - thick / 2 - 8 * u, "center"]
        : [middle + thick / 2 + 8 * u, start + length / 2 + 4 * u, "left"];
      pen.text(rate(memory.bytes_per_second), place[0], place[1], {
        size: 13,
        mono: true,
        align: place[2],
        weight: 600,
      });
    });
    for (const square of squares) this.square(square, box, across, middle, squares[0]);
  }

  /** Bytes on their way through a pipe: evenly spaced, lanes a little apart from each other. */
  bytes(box, start, length, thick) {
    const { pen, theme } = this,
      lanes = Math.max(1, Math.floor(thick / LANE)),
      dot = 3.5;
    const color = mix(theme.S, theme.ground, 0.8);
    for (let lane = 0; lane < lanes; lane++) {
      const shift = (this.passed + lane * 0.618 * APART) % APART,
        aside = (lane - (lanes - 1) / 2) * (thick / lanes);
      for (let at = shift; at < length - dot; at += APART) {
        const [x, y, w, h] = box(start + at, dot, dot);
        const [dx, dy] = this.width >= NARROW ? [0, aside] : [aside, 0];
        pen.box(x + dx, y + dy, w, h, color, 2);
      }
    }
  }

  square({ memory, from, side, dot }, box, across, middle, first) {
    const { pen, theme } = this,
      { u } = pen,
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
    if (memory.parts > 1)
      lines.push([
        `${grouped(memory.parts)} × ${traffic(memory.bytes / memory.parts)}`,
        { size: 12, color: theme.muted },
      ]);
    lines.forEach(([words, style], n) => {
      const at = across
        ? [Math.min(x + w / 2, this.width), middle - first.side / 2 - (56 - 17 * n) * u, "center"]
        : [this.width - 4, y + h / 2 + (n * 17 - 8) * u, "right"];
      const clear = across ? clampText(at[0], this.width, 60 * u) : at[0];
      pen.text(words, clear, at[1], { ...style, align: at[2] });
    });
  }
}

/** A centre from which words of that half width stay inside. */
const clampText = (x, width, half) => Math.min(width - half, Math.max(half, x));

const show = showing(MemoriesView);
export default show;
