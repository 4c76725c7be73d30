// A run, unpacked once: what every GPU does, from when to when.

import { Spans } from "../canvas/spans.js";
import { unpack } from "../canvas/unpack.js";

export const NOBODY = -1; // the owner of what is no one GPU's

class Run extends Spans {
  constructor(about, columns, kinds) {
    super({ ...about, kinds }, columns, [about.length]);
    this.chunks = this.owners.length;
    [this.computing, this.transfer, this.network, this.merging, this.packing] = kinds.map((_, n) => n);
    this.rounds = Math.max(...this.round) + 1;
    this.begins = new Map(); // when a GPU computes in a round
    for (const n of this.which((n) => kinds[this.kind[n]] === "computing"))
      this.begins.set(`${this.gpu[n]} ${this.round[n]}`, this.start[n]);
  }

  moves(n) {
    return this.kind[n] === this.transfer || this.kind[n] === this.network;
  }

  /** The colour of a mark: of whose keys it is, or of what is made. */
  colour(n, theme, owners) {
    if (this.kind[n] === this.merging) return theme.O;
    if (this.kind[n] === this.packing) return theme.Q;
    return owners[this.owner[n]] ?? (this.moves(n) ? theme.V : theme.S);
  }

  /** Marks of which something holds. */
  which(holds) {
    return [...this.start.keys()].filter(holds);
  }

  /** Marks under way at a time; several panels ask for the same. */
  now(time) {
    if (this.asked !== time) this.found = this.which((n) => time >= this.start[n] && time < this.end[n]);
    this.asked = time;
    return this.found;
  }

  /** Where a block comes from: its owner; in a ring of hosts, the GPU of the own host that fetched it. */
  sourceOf(n) {
    if (!this.hosts || this.kind[n] === this.network) return this.owner[n];
    return this.gpu[n] - (this.gpu[n] % this.host) + (this.owner[n] % this.host);
  }

  /** Blocks that have arrived and are not in use yet. */
  waiting(time) {
    const waits = (n) => time >= this.end[n] && time < this.begins.get(`${this.gpu[n]} ${this.round[n]}`);
    return this.which((n) => waits(n) && this.moves(n) && this.owner[n] !== NOBODY);
  }

  /** A moment to look at first: transfers of a later round are under way. */
  telling() {
    const [n] = this.which((n) => this.moves(n) && this.round[n] >= Math.min(2, this.rounds - 1));
    return n === undefined ? 0.4 * this.length : this.start[n] + 0.3 * (this.end[n] - this.start[n]);
  }

  /** Whether a GPU computes anything in a round. */
  computes(gpu, round) {
    return this.begins.has(`${gpu} ${round}`);
  }

  /** GPUs that compute nothing at a time. */
  idle(gpus, time) {
    const now = this.now(time).filter((n) => !this.moves(n)),
      busy = new Set(now.map((n) => this.gpu[n]));
    return [...Array(gpus).keys()].filter((gpu) => !busy.has(gpu));
  }
}

export class Runs {
  constructor(bytes) {
    const { header, arrays } = unpack(bytes);
    Object.assign(this, header);
    this.runs = header.runs.map((about, n) => new Run(about, arrays[`run${n}`], header.kinds));
    this.first = this.runs[0].telling();
    this.longest = Math.max(...this.runs.map(({ length }) => length));
  }
}
