// What the blocks compute: the tiles of one head as they were visited.

import { clamp, grouped, plural } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { NOWHERE } from "./placement.js";

/** One head's score matrix: each block of work fills the tiles that it has visited, and says on which SM it runs. */
export class TilesPanel {
  layout(box) {
    const { model, u } = this,
      [lane] = model.lanes,
      [left, top] = [50 * u, 26 * u],
      aspect = clamp(model.seq_q / model.seq_kv, 0.4, 1.4),
      w = Math.min(box.w - left, (box.h - top - 22 * u) / aspect);
    this.lane = lane;
    this.grid = { x: box.x + left, y: box.y + top, w, h: w * aspect };
    this.tile = [w / model.keyBlocks, this.grid.h / model.queryBlocks];
    this.blocks = Array.from({ length: model.heads }, () => []);
    for (let n = 0; n < lane.count; n++) this.blocks[lane.head[n]].push(n);
  }

  paint(pen, box, { time, head }) {
    const { grid, model, lane, u, theme } = this,
      { queryBlocks, keyBlocks, heads } = model,
      [cw, ch] = this.tile,
      wide = box.w > 260 * u,
      told = heads > 1 ? "as it ran · ↑ ↓ choose" : "as it ran",
      title = heads > 1 ? `Head ${head} of ${grouped(heads)}` : "Its tiles";
    pen.heading(title, wide ? told : "", box.x, box.y + 14 * u, box.w);
    pen.hatch(grid.x, grid.y, grid.w, grid.h, theme.hatch, 7 * u);
    for (let i = 0; i < queryBlocks; i++) this.fill(pen, i, model.first[i], model.stop[i], theme.cell);
    for (const n of this.blocks[head - (head % model.together)]) this.block(pen, n, lane.progress(n, time));
    if (cw >= 5 * u) pen.grid(grid, keyBlocks, 1, theme.ground);
    const blocks = wide
      ? `${plural(queryBlocks, "query block")} × ${plural(keyBlocks, "key block")}`
      : `${grouped(queryBlocks)} × ${grouped(keyBlocks)} blocks`;
    pen.note(blocks, grid.x, grid.y + grid.h + 16 * u, { size: 12, room: box.w - 50 * u });
    if (ch < 8 * u) return;
    const size = Math.min(11.5, ch / u - 0.5);
    for (const n of this.blocks[head]) {
      const middle = grid.y + (lane.query[n] + 0.5) * ch + 0.35 * size * u,
        alone = lane.query[n] !== NOWHERE && lane.key[n] === NOWHERE && lane.parts[n] === 1;
      if (alone && time >= lane.start[n] && time < lane.end[n])
        pen.right(`SM ${lane.sm[n]}`, grid.x - 6 * u, middle, { size, mono: true });
    }
  }

  /** Tiles of a query block, from one key block to another, or of a part of its rows. */
  fill(pen, i, from, to, color, part = 0, parts = 1) {
    const { x, y } = this.grid,
      [cw, ch] = this.tile,
      high = ch / parts;
    pen.box(x + from * cw, y + i * ch + part * high, (to - from) * cw, high - (high > 4 ? 1 : 0), color, 0);
  }

  /** The tiles that a block has visited so far, at an even pace. */
  block(pen, n, progress) {
    if (progress < 0) return;
    const { lane, model, theme } = this,
      [i, kernel] = [lane.query[n], lane.kernel[n]],
      done = kernel === lane.kernels.length - 1 ? 0.62 : 0.35 + 0.2 * kernel,
      color = mix(theme.S, theme.ground, progress < 1 ? 1 : done);
    if (i === NOWHERE) return this.columns(pen, progress, color);
    const [from, to] = model.keysOf(lane, n, i),
      visited = (to - from) * progress,
      begin = lane.reverse ? to - visited : from;
    this.fill(pen, i, begin, begin + visited, color, lane.part[n], lane.parts[n]);
  }

  /** A block that takes the whole head, key block after key block. */
  columns(pen, progress, color) {
    const { first, stop, keyBlocks, queryBlocks } = this.model;
    let left = progress * stop.reduce((sum, end, i) => sum + end - first[i], 0);
    for (let j = 0; j < keyBlocks; j++)
      for (let i = 0; i < queryBlocks && left > 0; i++)
        if (j >= first[i] && j < stop[i]) this.fill(pen, i, j, j + Math.min(1, left--), color);
  }
}
