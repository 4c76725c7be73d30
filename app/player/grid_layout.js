// The tiles of the score matrix, and where they lie, with Q at their left, K and V above and O at their right.

const snap = (x, dpr) => Math.round(x * dpr) / dpr;

/** Where the tiles of a problem lie in a box; ragged last tiles are narrower, as they are in memory. */
export class GridLayout {
  constructor(model, box, { left, right, above = 0 }, u, dpr) {
    const { drawn } = model,
      top = 46 * u + above;
    let perKey = (box.w - left - right) / drawn.seq_kv,
      perQuery = (box.h - top) / drawn.seq_q;
    const [rows, keys] = [model.queryRows(0), model.keyRows(0)],
      aspect = (rows * perQuery) / (keys * perKey),
      square = drawn.seq_q / drawn.seq_kv;
    if (aspect > 2.5) perQuery = Math.max((perQuery * 2.5) / aspect, Math.min(perQuery, (20 * u) / rows));
    if (aspect < 0.4) perKey = Math.max((perKey * aspect) / 0.4, Math.min(perKey, (20 * u) / keys));
    if (square > 0.8 && square < 1.25) perKey = perQuery = Math.min(perKey, perQuery);
    Object.assign(this, { box, u, dpr, perKey, perQuery });
    this.x0 = snap(box.x + left, dpr);
    this.y0 = snap(box.y + top, dpr);
    const edges = (start, count, block, length, scale) =>
      Float64Array.from({ length: count + 1 }, (_, n) =>
        snap(start + Math.min(n * block, length) * scale, dpr),
      );
    this.x = edges(this.x0, model.keyBlocks, drawn.block_kv, drawn.seq_kv, perKey);
    this.y = edges(this.y0, model.queryBlocks, drawn.block_q, drawn.seq_q, perQuery);
    this.w = this.x[model.keyBlocks] - this.x0;
    this.h = this.y[model.queryBlocks] - this.y0;
    this.side = Math.min(this.x[1] - this.x[0], this.y[1] - this.y[0]);
    this.gap = this.side >= 12 ? 2 : this.side >= 5 ? 1 : this.side >= 3 ? 1 / dpr : 0;
    this.o = { x: this.x0 + this.w + 12 * u, w: 32 * u };
    this.q = { x: this.x0 - 15 * u, w: 9 * u };
    this.right = this.o.x + this.o.w;
    this.mark = this.q.x; // left of which the chosen row is marked
    this.below = 0; // what stands below the tiles
  }

  cell(i, j) {
    const { x, y, gap } = this;
    return [x[j], y[i], x[j + 1] - x[j] - gap, y[i + 1] - y[i] - gap];
  }
}

/** `drawn` has lengths and blocks, `arrays` which key blocks each query block sees. */
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
