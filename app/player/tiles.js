// The tiles of a score matrix: `drawn` has lengths and blocks, `arrays` which key blocks each query block sees.

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
}
