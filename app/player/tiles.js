// The tiles of a score matrix: `drawn` has lengths and blocks, `arrays` which key blocks each query block sees.

import { grouped } from "../canvas/format.js";

export class Tiles {
  seen(i, j) {
    return j >= this.arrays.first[i] && j < this.arrays.stop[i];
  }

  /** All of them, [i, j], row by row. */
  *tiles() {
    for (let i = 0; i < this.queryBlocks; i++) for (let j = 0; j < this.keyBlocks; j++) yield [i, j];
  }

  partial(i, j) {
    return this.seen(i, j) && (j < this.arrays.full_first[i] || j >= this.arrays.full_stop[i]);
  }

  queryRows(i) {
    return Math.min(this.drawn.block_q, this.drawn.seq_q - i * this.drawn.block_q);
  }

  keyRows(j) {
    return Math.min(this.drawn.block_kv, this.drawn.seq_kv - j * this.drawn.block_kv);
  }

  /** What the mask hides of a tile, in words. */
  maskWords(i, j) {
    const part = !this.seen(i, j) ? "all" : this.partial(i, j) ? "some" : "nothing";
    return `the mask hides ${part} of it`;
  }

  /** What a tile is of, in words: its queries and its keys. */
  rangeWords(i, j) {
    const range = (block, size, count) => `${grouped(block * size)} to ${grouped(block * size + count - 1)}`,
      { block_q, block_kv } = this.drawn;
    return [`queries ${range(i, block_q, this.queryRows(i))}`, `keys ${range(j, block_kv, this.keyRows(j))}`];
  }
}
