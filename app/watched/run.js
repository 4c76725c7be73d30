// A watched run, unpacked once: what every step did, and what had been done by then.

import { countUpTo } from "../canvas/format.js";
import { unpack } from "../canvas/unpack.js";
import { Tiles } from "../player/grid_layout.js";

const NONE = -1;

/** Steps of one head; at a position n so many are done, step n - 1 is at work, and past the last none is. */
export class Run {
  constructor(about, columns, kinds) {
    Object.assign(this, about, columns, { kinds });
    this.steps = this.kind.length;
    this.visitSteps = [...this.kind.keys()].filter((n) => this.does(n) === "visit");
    this.totals = this.moved(this.steps);
  }

  does(n) {
    return this.kinds[this.kind[n]];
  }

  /** [query block, key block] of a step; NONE where it has none. */
  tile(n) {
    return [this.query[n], this.key[n]];
  }

  /** How many visits have begun at a position. */
  visitsBy(position) {
    return countUpTo(this.visitSteps, position - 1);
  }

  /** How often each tile was visited at a position, by `i * keyBlocks + j`. */
  visited(position, keyBlocks) {
    const counts = new Map();
    for (const n of this.visitSteps.filter((n) => n < position)) {
      const tile = this.query[n] * keyBlocks + this.key[n];
      counts.set(tile, (counts.get(tile) ?? 0) + 1);
    }
    return counts;
  }

  /** Bytes at a position by tensor: read, written. */
  moved(position) {
    const found = new Map();
    for (let n = 0; n < Math.min(position, this.steps); n++) {
      if (!this.bytes[n]) continue;
      const name = this.tensors[this.tensor[n]],
        own = found.get(name) ?? { read: 0, written: 0 },
        kind = this.does(n);
      if (kind !== "store") own.read += this.bytes[n];
      if (kind !== "load") own.written += this.bytes[n];
      found.set(name, own);
    }
    return found;
  }

  /** Query blocks whose O was written at a position; a kernel without visits, such as a merge, tells none: all, once it is done. */
  stored(position) {
    const found = new Set();
    for (let n = 0; n < Math.min(position, this.steps); n++)
      if (this.does(n) !== "load" && this.bytes[n] && this.tensors[this.tensor[n]] === "O")
        found.add(this.query[n]);
    return position > this.steps && found.has(NONE) ? { has: () => true } : found;
  }
}

/** Both runs, the grid that they share, and what the player's grid asks of a model. */
export class Watched extends Tiles {
  constructor(bytes) {
    super();
    const { header, arrays } = unpack(bytes);
    Object.assign(this, header, { arrays });
    this.runs = header.runs.map((about, n) => new Run(about, arrays[n ? "flash2" : "own"], header.kinds));
    [this.own, this.flash2] = this.runs;
    this.longest = this.own.steps + 1; // the last position is that of a run that is over
    this.first = this.longest; // it is shown done, with all that is marked
    if (!this.tiled) return;
    this.queryBlocks = arrays.first.length;
    this.keyBlocks = Math.ceil(this.drawn.seq_kv / this.drawn.block_kv);
    const marks = { wrong: this.wrong ? [this.wrong] : [], ...header.marks };
    this.marked = new Map();
    for (const [name, tiles] of Object.entries(marks))
      for (const [i, j] of tiles) this.marked.set(i * this.keyBlocks + j, name);
  }

  markOf(i, j) {
    return this.marked.get(i * this.keyBlocks + j);
  }

  /** Whether a tile is the first after which numbers are wrong. */
  isWrong(i, j) {
    return this.wrong?.[0] === i && this.wrong[1] === j;
  }

  share() {
    return 0; // of softmax mass: not asked of a run that is watched
  }

  /** Where FlashAttention-2 is while the own kernel is at a position: it has made as many visits. */
  beside(position) {
    const { own, flash2 } = this,
      visits = own.visitsBy(position);
    if (position > own.steps) return flash2.steps + 1;
    if (visits === 0) return Math.min(position, flash2.visitSteps[0] ?? 0);
    if (visits > flash2.visitSteps.length) return flash2.steps;
    const since = position - own.visitSteps[visits - 1] - 1,
      next = flash2.visitSteps[visits] ?? flash2.steps;
    return Math.min(flash2.visitSteps[visits - 1] + 1 + since, next);
  }
}
