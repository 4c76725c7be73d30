// A run, unpacked once: what every GPU does, from when to when.

import { Spans } from "../canvas/spans.js";
import { unpack } from "../canvas/unpack.js";

export const NOBODY = -1; // the owner of what is no one GPU's

class Run extends Spans {
  constructor(about, columns, kinds) {
    super({ ...about, kinds }, columns, [about.length]);
    this.chunks = this.owners.length;
    this.hasTiles = this.tileQuery.length > 0;
    [this.computing, this.transfer, this.network, this.merging, this.packing] = kinds.map((_, n) => n);
    this.rounds = Math.max(...this.round) + 1;
    this.used = this.whenUsed();
  }

  moves(n) {
    return this.kind[n] === this.transfer || this.kind[n] === this.network;
  }

  /** Marks under way at a time; several panels ask for the same. */
  now(time) {
    if (this.asked === time) return this.found;
    const found = [];
    for (let n = 0; n < this.count; n++) if (time >= this.start[n] && time < this.end[n]) found.push(n);
    Object.assign(this, { asked: time, found });
    return found;
  }

  /** Where a block comes from: its owner; in a ring of hosts, the GPU of the own host that fetched it. */
  sourceOf(n) {
    if (!this.hosts || this.kind[n] === this.network) return this.owner[n];
    return this.gpu[n] - (this.gpu[n] % this.host) + (this.owner[n] % this.host);
  }

  /** Blocks that have arrived and are not in use yet. */
  waiting(time) {
    const found = [];
    for (let n = 0; n < this.count; n++)
      if (this.moves(n) && this.owner[n] !== NOBODY && time >= this.end[n] && time < this.used[n])
        found.push(n);
    return found;
  }

  /** For each transfer, when its GPU begins to compute with what it brings. */
  whenUsed() {
    this.begins = new Map();
    for (let n = 0; n < this.count; n++)
      if (this.kind[n] === this.computing) this.begins.set(`${this.gpu[n]} ${this.round[n]}`, this.start[n]);
    return Float32Array.from(this.end, (end, n) => this.begins.get(`${this.gpu[n]} ${this.round[n]}`) ?? end);
  }

  /** A moment to look at first: transfers of a later round are under way. */
  telling() {
    const moving = Array.from(this.start.keys()).filter(
      (n) => this.moves(n) && this.round[n] >= Math.min(2, this.rounds - 1),
    );
    return moving.length
      ? this.start[moving[0]] + 0.3 * (this.end[moving[0]] - this.start[moving[0]])
      : 0.4 * this.length;
  }

  /** Whether a GPU computes anything in a round. */
  computes(gpu, round) {
    return this.begins.has(`${gpu} ${round}`);
  }

  /** GPUs that compute nothing at a time. */
  idle(gpus, time) {
    const busy = new Set(
      this.now(time)
        .filter((n) => !this.moves(n))
        .map((n) => this.gpu[n]),
    );
    return Array.from({ length: gpus }, (_, gpu) => gpu).filter((gpu) => !busy.has(gpu));
  }

  /** The mark of a GPU and lane at a time: computing, merging and packing above, transfers below; or -1. */
  markAt(gpu, below, time) {
    return this.now(time).find((n) => this.gpu[n] === gpu && this.moves(n) === below) ?? -1;
  }
}

export class Runs {
  constructor(bytes) {
    const { header, arrays } = unpack(bytes);
    Object.assign(this, header);
    this.runs = header.runs.map((about, n) => new Run(about, arrays[`run${n}`], header.kinds));
    this.longest = Math.max(...this.runs.map(({ length }) => length));
  }
}
