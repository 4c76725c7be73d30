// One algorithm's steps, accumulated once; what a picture asks of them is a lookup.

import { clamp, countWhile } from "../canvas/format.js";

export const NONE = 255; // a step on no query tile, or on no key tile

/** One algorithm's steps: what each does, running totals, and which tile visit it belongs to. */
export class Run {
  /** `about` is what the header says of it; `words` are the names of operations and tensors by their numbers. */
  constructor(name, { kinds, ...about }, words, kind, query, key) {
    Object.assign(this, about, { name, query, key, kind, steps: kind.length });
    const [{ outer, reverse }] = this.phases;
    Object.assign(this, { reverse, keysOutside: outer === "key" }); // key tiles from the last to the first; in the outer loop
    this.kinds = kinds.map(([, operation, tensor]) => [words.operations[operation], words.tensors[tensor]]);
    const accumulate = (at) => {
      const table = Float64Array.from(kinds, (row) => row[at]);
      return this.summed((s) => table[kind[s]]);
    };
    const [read, written, seconds, ...crossing] = [3, 4, 5, 6, 7].map(accumulate);
    this.phase = Uint8Array.from(kind, (one) => kinds[one][0]);
    this.seconds = seconds;
    this.moved = { requested: [read, written], crossing }; // of L2, and across HBM
    this.phaseEnds = this.phases.map((_, n) => seconds[this.phase.lastIndexOf(n) + 1]);
    [this.total, this.crossing] = ["requested", "crossing"].map(
      (level) => this.readAt(this.steps, level) + this.writtenAt(this.steps, level),
    );
    this.time = seconds[this.steps];
  }

  /** Running totals of a number of each step: what came before it, and at last all. */
  summed(of) {
    const totals = new Float64Array(this.steps + 1);
    for (let s = 0; s < this.steps; s++) totals[s + 1] = totals[s] + of(s);
    return totals;
  }

  /** What a step does, by its name. */
  operation(step) {
    return this.kinds[this.kind[step]][0];
  }

  /** The tensor that a step moves; "" where it moves none. */
  tensor(step) {
    return this.kinds[this.kind[step]][1];
  }

  /** Whether a step is one of the run, neither before its start nor after its end. */
  has(step) {
    return step >= 0 && step < this.steps;
  }

  /** The phase that a step belongs to: the first before the start, the last after the end. */
  phaseAt(step) {
    return this.phases[step < 0 ? 0 : step >= this.steps ? this.phases.length - 1 : this.phase[step]];
  }

  /** How many tile visits have begun. */
  visitedBy(step) {
    return step < 0 ? 0 : countWhile(this.visitStart, (start) => start <= step);
  }

  /** Which tile visit and which outer block every step belongs to; only the run in view needs them. */
  findVisits() {
    const { steps, phase, query, key } = this,
      tiled = this.phases.map(() => false);
    for (let s = 0; s < steps; s++) if (query[s] !== NONE && key[s] !== NONE) tiled[phase[s]] = true;
    this.visit = new Int32Array(steps); // -1 between visits
    this.outerOf = new Int32Array(steps);
    this.visitStart = [];
    this.outerStart = [];
    this.parts = []; // where keys are split: what each part's program visits, { start, i, first, stop }
    let open = -1,
      outer = -1;
    for (let s = 0; s < steps; s++) {
      const now = this.phases[phase[s]].outer === "query" ? query[s] : key[s];
      const part = this.splits > 1 && this.operation(s) === "load" && this.tensor(s) === "Q";
      if (part) this.parts.push({ start: s, i: query[s], first: NONE, stop: 0 });
      if (part || s === 0 || phase[s] !== phase[s - 1] || now !== outer) {
        this.outerStart.push(s);
        open = -1;
      }
      if (this.parts.length && key[s] !== NONE) {
        const own = this.parts.at(-1);
        own.first = Math.min(own.first, key[s]);
        own.stop = key[s] + 1;
      }
      outer = now;
      this.outerOf[s] = this.outerStart.length - 1;
      const visiting = !tiled[phase[s]] || (query[s] !== NONE && key[s] !== NONE);
      if (visiting && (open < 0 || query[s] !== query[s - 1] || key[s] !== key[s - 1]))
        open = this.visitStart.push(s) - 1;
      this.visit[s] = visiting ? open : -1;
    }
    this.visits = this.visitStart.length;
    this.findTransfers();
  }

  /** The number of the part that a step works on, counted over all query tiles; -1 where keys are not split. */
  partAt(step) {
    if (!this.has(step) || this.phase[step]) return -1;
    return countWhile(this.parts, ({ start }) => start <= step) - 1;
  }

  /** How many loads and stores came before each step, and of every stored tensor how much stands in memory after it. */
  findTransfers() {
    const { query, key } = this,
      seen = new Set();
    this.transfers = this.summed((s) => ["load", "store"].includes(this.operation(s)));
    this.stored = {}; // by tensor, bytes after so many steps, each tile once
    for (const [operation, tensor] of this.kinds)
      if (operation === "store")
        this.stored[tensor] ??= this.summed((s) => {
          const tile = `${tensor} ${query[s]} ${key[s]}`,
            again = this.operation(s) !== "store" || this.tensor(s) !== tensor || seen.has(tile);
          if (!again) seen.add(tile);
          return again ? 0 : this.bytesOf(s);
        });
  }

  /** The share of a tensor that the run has left in memory by a step. */
  storedAt(tensor, step) {
    const total = this.stored[tensor];
    return total[clamp(step + 1, 0, this.steps)] / (total[this.steps] || 1);
  }

  /** The loads and stores of steps from one to another, thinned evenly to a number of them. */
  transfersWithin(from, to, most) {
    const found = [],
      first = Math.max(0, from),
      last = Math.min(this.steps - 1, to),
      every = Math.ceil((this.transfers[last + 1] - this.transfers[first]) / most);
    for (let s = first; s <= last; s++) {
      const moves = this.transfers[s + 1] > this.transfers[s];
      if (moves && this.transfers[s] % every === 0) found.push(s);
    }
    return found;
  }

  /** What the steps have read, requested from L2 or crossing HBM; -1 is before the first step, `steps` after the last. */
  readAt(step, level = "requested") {
    return this.moved[level][0][clamp(step + 1, 0, this.steps)];
  }

  writtenAt(step, level = "requested") {
    return this.moved[level][1][clamp(step + 1, 0, this.steps)];
  }

  timeAt(step) {
    return this.seconds[clamp(step + 1, 0, this.steps)];
  }

  /** The step under way at a modelled time; -1 before the start, `steps` after the end. */
  stepAt(seconds) {
    if (seconds <= 0) return -1;
    if (seconds >= this.time) return this.steps;
    return countWhile(this.seconds, (ended) => ended < seconds) - 1;
  }

  /** What a step moves: bytes requested from L2, or across HBM. */
  bytesOf(step, level = "requested") {
    return this.moved[level].reduce((sum, total) => sum + total[step + 1] - total[step], 0);
  }

  /** The share of a step's bytes that crosses HBM, modelled: 0 where L2 answers it, or where it moves nothing. */
  crossingOf(step) {
    return this.bytesOf(step, "crossing") / (this.bytesOf(step) || 1);
  }

  /** Whether the visit that a step belongs to has reached an operation by that step. */
  reached(step, operation) {
    for (let s = this.visitStart[this.visit[step]]; s <= step; s++)
      if (this.operation(s) === operation) return true;
    return false;
  }
}
