// The payload, unpacked; everything the picture asks of it is a lookup.

import { unpack } from "../canvas/unpack.js";
import { Tiles } from "./grid_layout.js";
import { tilesAdded } from "./row_state.js";
import { Run } from "./run.js";

export class Model extends Tiles {
  constructor(bytes) {
    super();
    const { header, arrays } = unpack(bytes);
    Object.assign(this, header, { arrays, rows: arrays.rows });
    const { drawn, asked, misfits } = this,
      time = (name) => this.runs[name].time;
    this.backward = header.runs[this.algorithm].rows === "gradients";
    this.scaled = drawn.seq_q !== asked.seq_q || drawn.seq_kv !== asked.seq_kv;
    this.runs = {};
    this.algorithms = Object.keys(header.runs);
    for (const name of this.algorithms) {
      const { kind, query, key } = arrays[name];
      this.runs[name] = new Run(name, header.runs[name], header, kind, query, key);
    }
    this.run = this.runs[this.algorithm];
    this.run.findVisits();
    this.finishing = this.algorithms.filter((name) => !misfits[name]).sort((a, b) => time(a) - time(b)); // those that can run, the fastest first
    this.longest = Math.max(...(this.finishing.length ? this.finishing : this.algorithms).map(time));
    this.mostTraffic = Math.max(this.against.total, ...this.algorithms.map((name) => this.runs[name].total));
    this.layTiles();
  }

  /** What follows from the size of the tiles. */
  layTiles() {
    const { drawn, arrays } = this;
    this.queryBlocks = Math.ceil(drawn.seq_q / drawn.block_q);
    this.keyBlocks = Math.ceil(drawn.seq_kv / drawn.block_kv);
    const blocks = Array.from(this.rows, (_, n) => this.blockOf(n));
    this.rowStart = [...blocks.keys()].filter((n) => blocks[n] !== blocks[n - 1]);
    this.rowStart.push(blocks.length);
    this.visible = arrays.stop.reduce((sum, stop, i) => sum + stop - arrays.first[i], 0);
  }

  /** The model on the tiles of a run, which may have its own. */
  on({ name, tile }) {
    if (!tile) return this;
    const arrays = { ...this.arrays, ...this.arrays[name] },
      drawn = { ...this.drawn, ...tile },
      model = Object.assign(Object.create(this), { drawn, arrays, rows: arrays.rows });
    model.layTiles();
    return model;
  }

  share(i, j) {
    return this.arrays.share[i * this.keyBlocks + j];
  }

  blockOf(index) {
    return Math.floor(this.rows[index] / this.drawn.block_q);
  }

  /** Index of the sampled row in the middle of a query block. */
  rowOf(block) {
    const start = this.rowStart[block],
      count = this.rowStart[block + 1] - start;
    return start + Math.min(count - 1, Math.floor(count / 2));
  }

  /** Index of the sampled row closest to a row of the problem. */
  nearest(row) {
    const far = (n) => Math.abs(this.rows[n] - row);
    return [...this.rows.keys()].reduce((best, n) => (far(n) < far(best) ? n : best));
  }

  /** m, l, alpha and lse of a sampled row once key tile j is added; before its first tile m is -infinity, or its sink. */
  after(index, j) {
    const { arrays, run } = this,
      block = this.blockOf(index);
    const begun = run.reverse ? j < arrays.stop[block] : j >= arrays.first[block];
    const { sink = -Infinity } = run.terms ?? {};
    if (!begun) return { m: sink, l: sink === -Infinity ? 0 : 1, alpha: NaN, lse: sink };
    const columns = arrays.m.length / this.rows.length; // one where a row is reduced whole
    const at = index * columns + (columns > 1 ? j : 0);
    return { m: arrays.m[at], l: arrays.l[at], alpha: arrays.alpha[at], lse: arrays.lse[at] };
  }

  /** How far off O of a query block is with what it has, where a flaw is left in: a share of its largest number. */
  wrongSoFar(flaw, run, step, block) {
    const { first, stop, wrong } = this.arrays;
    if (!flaw || !wrong) return 0;
    const { done } = tilesAdded(run, step, block, first[block], stop[block] - 1);
    return done < first[block] || done >= stop[block] ? 0 : wrong[flaw][block * this.keyBlocks + done];
  }

  /** The sums of P and of dS of a sampled row in a key tile. */
  rowInTile(index, j) {
    const at = index * this.keyBlocks + j;
    return { weight: this.arrays.weight[at], gradient: this.arrays.score_gradient[at] };
  }
}
