// The payload, unpacked; everything the picture asks of it is a lookup.

import { unpack } from "../canvas/unpack.js";
import { tilesAdded } from "./row_state.js";
import { Run } from "./run.js";
import { Tiles } from "./tiles.js";

export class Model extends Tiles {
  constructor(bytes) {
    super();
    const { header, arrays } = unpack(bytes);
    Object.assign(this, header, { arrays });
    const { drawn, asked } = this;
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
    const fit = this.algorithms.filter((name) => !this.misfits[name]);
    this.finishing = fit.sort((a, b) => this.runs[a].time - this.runs[b].time); // those that can run, the fastest first
    this.longest = Math.max(...(fit.length ? fit : this.algorithms).map((name) => this.runs[name].time));
    this.mostTraffic = Math.max(this.against.total, ...this.algorithms.map((name) => this.runs[name].total));
    this.rows = arrays.rows;
    this.layTiles();
  }

  /** What follows from the size of the tiles. */
  layTiles() {
    const { drawn, arrays } = this;
    this.queryBlocks = Math.ceil(drawn.seq_q / drawn.block_q);
    this.keyBlocks = Math.ceil(drawn.seq_kv / drawn.block_kv);
    this.rowStart = [0];
    for (let n = 1; n < this.rows.length; n++)
      if (this.blockOf(n) !== this.blockOf(n - 1)) this.rowStart.push(n);
    this.rowStart.push(this.rows.length);
    this.visible = 0;
    for (let i = 0; i < this.queryBlocks; i++) this.visible += arrays.stop[i] - arrays.first[i];
  }

  /** The model on the tiles of a run, which may have its own. */
  on({ name, tile }) {
    if (!tile) return this;
    const model = Object.assign(Object.create(this), {
      drawn: { ...this.drawn, ...tile },
      arrays: { ...this.arrays, ...this.arrays[name] },
    });
    model.rows = model.arrays.rows;
    model.layTiles();
    return model;
  }

  share(i, j) {
    return this.arrays.share[i * this.keyBlocks + j];
  }

  blockOf(index) {
    return Math.floor(this.rows[index] / this.drawn.block_q);
  }

  /** Index of a sampled row of a query block, at a fraction of its height. */
  rowOf(block, slot) {
    const start = this.rowStart[block],
      count = this.rowStart[block + 1] - start;
    return start + Math.min(count - 1, Math.floor(slot * count));
  }

  /** Index of the sampled row closest to a row of the problem. */
  nearest(row) {
    let best = 0;
    for (let i = 1; i < this.rows.length; i++) {
      if (Math.abs(this.rows[i] - row) < Math.abs(this.rows[best] - row)) best = i;
    }
    return best;
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
