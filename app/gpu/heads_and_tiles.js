// What the blocks compute: which query blocks of all heads are done, and the tiles of one head as they were visited.

import { clamp, grouped, plural } from "../canvas/format.js";
import { channels, mix } from "../canvas/theme.js";
import { NOWHERE } from "./placement.js";

const WAITING = 0,
  RUNNING = 1,
  DONE = 2;

/** Which query blocks of a head a block of work computes, first and last. */
function rowsOf(lane, n, queryBlocks) {
  return lane.query[n] === NOWHERE ? [0, queryBlocks - 1] : [lane.query[n], lane.query[n]];
}

/** All heads side by side, a query block a line: waiting, at work, written. */
export class HeadsPanel {
  follows = ["time", "head"];

  layout(box) {
    const { model, u } = this,
      top = 42 * u;
    [this.lane] = model.lanes;
    const h = Math.min(box.h - top - 2 * u, (box.w / model.heads) * model.queryBlocks * 2.5);
    this.map = { x: box.x, y: box.y + top, w: Math.min(box.w, Math.max(h / 6, 26 * u * model.heads)), h };
    this.states = new Uint8Array(model.heads * model.queryBlocks);
  }

  /** The head at a point, or -1. */
  headAt(px, py) {
    const { x, y, w, h } = this.map;
    if (px < x || px >= x + w || py < y || py >= y + h) return NOWHERE;
    return Math.floor(((px - x) / w) * this.model.heads);
  }

  paint(pen, box, { time, head }) {
    const { map, model } = this,
      { u, theme, ctx } = pen;
    pen.text("What is written", box.x, box.y + 14 * u, { size: 14, weight: 650 });
    const small = { size: 12, color: theme.muted };
    let x = box.x;
    for (const [words, color] of Object.entries({
      waits: theme.cell,
      "at work": theme.S,
      written: theme.O,
    })) {
      pen.box(x, box.y + 24 * u, 10 * u, 10 * u, color, 2);
      x += 29 * u + pen.text(words, x + 14 * u, box.y + 33 * u, small);
    }
    if (box.w > 260 * u)
      pen.right("heads × query blocks", box.x + box.w, box.y + 14 * u, { ...small, room: box.w - 130 * u });
    const colors = [theme.cell, theme.S, theme.O].map((color) => [...channels(color), 255]);
    pen.pixels(
      Array.from(this.statesAt(time), (state) => colors[state]),
      model.heads,
      map,
    );
    const each = map.w / model.heads;
    ctx.fillStyle = theme.ground;
    if (each >= 5 * u)
      for (let n = 1; n < model.heads; n++) ctx.fillRect(map.x + n * each - 0.5, map.y, 1, map.h);
    const high = map.h / model.queryBlocks;
    if (high >= 5 * u)
      for (let n = 1; n < model.queryBlocks; n++) ctx.fillRect(map.x, map.y + n * high - 0.5, map.w, 1);
    if (model.heads > 1)
      pen.frame(map.x + head * each, map.y, Math.max(3, each), map.h, theme.ink, 1.5 * u, 2);
  }

  /** What has become of each query block of each head, row by row. */
  statesAt(time) {
    const { lane, model, states } = this,
      { queryBlocks } = model;
    states.fill(WAITING);
    for (let n = 0; n < lane.count; n++) {
      if (time < lane.start[n]) continue;
      const done = time >= lane.end[n] && lane.kernel[n] === lane.kernels.length - 1,
        [low, high] = rowsOf(lane, n, queryBlocks);
      for (let i = low; i <= high; i++) {
        const at = i * model.heads + lane.head[n];
        for (let h = at; h < at + model.together; h++) states[h] = Math.max(states[h], done ? DONE : RUNNING);
      }
    }
    return states;
  }
}

/** One head's score matrix: each block of work fills the tiles that it has visited, and says on which SM it runs. */
export class TilesPanel {
  follows = ["time", "head"];

  layout(box) {
    const { model, u } = this,
      [lane] = model.lanes,
      left = 50 * u,
      top = 26 * u;
    this.lane = lane;
    const room = { w: box.w - left, h: box.h - top - 22 * u },
      aspect = clamp(model.seq_q / model.seq_kv, 0.4, 1.4);
    const w = Math.min(room.w, room.h / aspect);
    this.grid = { x: box.x + left, y: box.y + top, w, h: w * aspect };
    this.blocks = Array.from({ length: model.heads }, () => []);
    for (let n = 0; n < lane.count; n++) this.blocks[lane.head[n]].push(n);
  }

  paint(pen, box, { time, head }) {
    const { grid, model, lane } = this,
      { u, theme, ctx } = pen,
      { queryBlocks, keyBlocks } = model;
    const title = model.heads > 1 ? `Head ${head} of ${grouped(model.heads)}` : "Its tiles",
      wide = box.w > 260 * u,
      words = !wide ? "" : model.heads > 1 ? "as it ran · ↑ ↓ choose" : "as it ran";
    pen.heading(title, words, box.x, box.y + 14 * u, box.w);
    const cw = grid.w / keyBlocks,
      ch = grid.h / queryBlocks;
    pen.hatch(grid.x, grid.y, grid.w, grid.h, theme.hatch, 7 * u);
    for (let i = 0; i < queryBlocks; i++) {
      const wide = (model.stop[i] - model.first[i]) * cw;
      pen.box(grid.x + model.first[i] * cw, grid.y + i * ch, wide, ch - (ch > 4 ? 1 : 0), theme.cell, 0);
    }
    for (const n of this.blocks[head - (head % model.together)])
      this.block(pen, n, lane.progress(n, time), cw, ch);
    ctx.fillStyle = theme.ground;
    if (cw >= 5 * u)
      for (let j = 1; j < keyBlocks; j++) ctx.fillRect(grid.x + j * cw - 0.5, grid.y, 1, grid.h);
    const blocks = wide
      ? `${plural(queryBlocks, "query block")} × ${plural(keyBlocks, "key block")}`
      : `${grouped(queryBlocks)} × ${grouped(keyBlocks)} blocks`;
    pen.note(blocks, grid.x, grid.y + grid.h + 16 * u, { size: 12, room: box.w - 50 * u });
  }

  /** The tiles that a block has visited so far, at an even pace. */
  block(pen, n, progress, cw, ch) {
    if (progress < 0) return;
    const { grid, lane, model } = this,
      { u, theme } = pen,
      running = progress < 1;
    const last = lane.kernel[n] === lane.kernels.length - 1;
    const color = mix(theme.S, theme.ground, running ? 1 : last ? 0.62 : 0.35 + 0.2 * lane.kernel[n]);
    const [low, high] = rowsOf(lane, n, model.queryBlocks);
    if (lane.query[n] === NOWHERE) return this.columns(pen, progress, color, cw, ch);
    for (let i = low; i <= high; i++) {
      const [from, to] = model.keysOf(lane, n, i);
      const visited = (to - from) * progress,
        begin = lane.reverse ? to - visited : from,
        part = ch / lane.parts[n];
      const y = grid.y + i * ch + lane.part[n] * part;
      pen.box(grid.x + begin * cw, y, visited * cw, part - (part > 4 ? 1 : 0), color, 0);
    }
    if (running && ch >= 8 * u && lane.key[n] === NOWHERE && lane.parts[n] === 1) {
      const size = Math.min(11.5, ch / u - 0.5),
        middle = grid.y + (low + 0.5) * ch;
      pen.right(`SM ${lane.sm[n]}`, grid.x - 6 * u, middle + 0.35 * size * u, { size, mono: true });
    }
  }

  /** A block that takes the whole head, key block after key block. */
  columns(pen, progress, color, cw, ch) {
    const { grid, model } = this;
    let left =
      progress * Array.from(model.stop, (stop, i) => stop - model.first[i]).reduce((a, b) => a + b, 0);
    for (let j = 0; j < model.keyBlocks && left > 0; j++) {
      for (let i = 0; i < model.queryBlocks && left > 0; i++) {
        if (j < model.first[i] || j >= model.stop[i]) continue;
        pen.box(grid.x + j * cw, grid.y + i * ch, cw * Math.min(1, left), ch - (ch > 4 ? 1 : 0), color, 0);
        left -= 1;
      }
    }
  }
}
