// The payload, unpacked and accumulated once; everything the picture asks of it is a lookup.

const LOAD = 0, SCORES = 1, MAXIMUM = 2, RESCALE = 3, ACCUMULATE = 4, STORE = 5, SOFTMAX = 6;
const ROW_TERMS = 7, WEIGHTS = 8, VALUE_GRADIENT = 9, WEIGHT_GRADIENT = 10, SCORE_GRADIENT = 11, KEY_GRADIENT = 12, QUERY_GRADIENT = 13;
const TENSORS = ["", "Q", "K", "V", "S", "P", "O", "statistics", "lse", "dO", "dQ", "dK", "dV", "delta", "dP", "dS", "lse"];
const TITLES = { standard: "standard", flash1: "FlashAttention-1", flash2: "FlashAttention-2", flash3: "FlashAttention-3", backward: "the backward pass" };
const NONE = 255;

/** One algorithm's steps: what each does, running totals, and which tile visit it belongs to. */
class Run {
  constructor(name, about, kind, query, key) {
    Object.assign(this, { name, query, key, phases: about.phases, steps: kind.length });
    this.reverse = about.phases[0].reverse; // key tiles from the last to the first
    this.keepsOutput = name === "flash2" || name === "flash3";
    const lookUp = (at) => {
      const table = Uint8Array.from(about.kinds, (row) => row[at]), column = new Uint8Array(kind.length);
      for (let s = 0; s < kind.length; s++) column[s] = table[kind[s]];
      return column;
    };
    const accumulate = (at) => {
      const table = Float64Array.from(about.kinds, (row) => row[at]), total = new Float64Array(kind.length + 1);
      for (let s = 0; s < kind.length; s++) total[s + 1] = total[s] + table[kind[s]];
      return total;
    };
    [this.phase, this.operation, this.tensor] = [0, 1, 2].map(lookUp);
    [this.readBytes, this.writtenBytes, this.seconds] = [3, 4, 5].map(accumulate);
    this.phaseEnds = this.phases.map((_, n) => this.seconds[this.phase.lastIndexOf(n) + 1]);
    this.totalRead = this.readBytes[this.steps];
    this.totalWritten = this.writtenBytes[this.steps];
    this.total = this.totalRead + this.totalWritten;
    this.time = this.seconds[this.steps];
  }

  /** Which tile visit and which outer block every step belongs to; only the run in view needs them. */
  findVisits() {
    const { steps, phase, query, key } = this, tiled = this.phases.map(() => false);
    for (let s = 0; s < steps; s++) if (query[s] !== NONE && key[s] !== NONE) tiled[phase[s]] = true;
    this.visit = new Int32Array(steps); // -1 between visits
    this.visitsSoFar = new Int32Array(steps); // visits begun
    this.outerOf = new Int32Array(steps);
    this.visitStart = [];
    this.outerStart = [];
    let open = -1, outer = -1;
    for (let s = 0; s < steps; s++) {
      const now = this.phases[phase[s]].outer === "query" ? query[s] : key[s];
      if (s === 0 || phase[s] !== phase[s - 1] || now !== outer) {
        this.outerStart.push(s);
        open = -1;
      }
      outer = now;
      this.outerOf[s] = this.outerStart.length - 1;
      const visiting = !tiled[phase[s]] || (query[s] !== NONE && key[s] !== NONE);
      if (visiting && (open < 0 || query[s] !== query[s - 1] || key[s] !== key[s - 1])) open = this.visitStart.push(s) - 1;
      this.visit[s] = visiting ? open : -1;
      this.visitsSoFar[s] = this.visitStart.length;
    }
    this.visits = this.visitStart.length;
  }

  /** Whether a step has happened: -1 is before the first, `steps` after the last. */
  readAt(step) {
    return this.readBytes[clamp(step + 1, 0, this.steps)];
  }

  writtenAt(step) {
    return this.writtenBytes[clamp(step + 1, 0, this.steps)];
  }

  timeAt(step) {
    return this.seconds[clamp(step + 1, 0, this.steps)];
  }

  /** The step under way at a modelled time; -1 before the start, `steps` after the end. */
  stepAt(seconds) {
    if (seconds <= 0) return -1;
    if (seconds >= this.time) return this.steps;
    let low = 0, high = this.steps - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.seconds[middle + 1] < seconds) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** What the steps on one tile ask of HBM; what is loaded or stored once for a whole block is not among it. */
  bytesOfTile(i, j) {
    let read = 0, written = 0;
    for (let s = 0; s < this.steps; s++) {
      if (this.query[s] !== i || this.key[s] !== j) continue;
      read += this.readBytes[s + 1] - this.readBytes[s];
      written += this.writtenBytes[s + 1] - this.writtenBytes[s];
    }
    return { read, written };
  }

  /** Whether the visit that a step belongs to has reached an operation by that step. */
  reached(step, operation) {
    for (let s = this.visitStart[this.visit[step]]; s <= step; s++) if (this.operation[s] === operation) return true;
    return false;
  }
}

class Model {
  constructor(bytes) {
    const { header, arrays } = unpack(bytes);
    Object.assign(this, header, { arrays });
    const { drawn, asked } = this;
    this.queryBlocks = Math.ceil(drawn.seq_q / drawn.block_q);
    this.keyBlocks = Math.ceil(drawn.seq_kv / drawn.block_kv);
    this.scaled = drawn.seq_q !== asked.seq_q || drawn.seq_kv !== asked.seq_kv;
    this.runs = {};
    this.algorithms = Object.keys(header.runs);
    for (const name of this.algorithms) {
      const column = (part) => arrays[`${name}.${part}`];
      this.runs[name] = new Run(name, header.runs[name], column("kind"), column("query"), column("key"));
    }
    this.run = this.runs[this.algorithm];
    this.run.findVisits();
    const fit = this.algorithms.filter((name) => !this.misfits[name]);
    this.finishing = fit.sort((a, b) => this.runs[a].time - this.runs[b].time); // those that can run, the fastest first
    this.longest = Math.max(...(fit.length ? fit : this.algorithms).map((name) => this.runs[name].time));
    this.mostTraffic = Math.max(...this.algorithms.map((name) => this.runs[name].total));
    this.rows = arrays.rows;
    this.rowStart = [0];
    for (let n = 1; n < this.rows.length; n++) if (this.blockOf(n) !== this.blockOf(n - 1)) this.rowStart.push(n);
    this.rowStart.push(this.rows.length);
    this.visible = 0;
    for (let i = 0; i < this.queryBlocks; i++) this.visible += arrays.stop[i] - arrays.first[i];
  }

  visits(i, j) {
    return this.run.name === "standard" || this.seen(i, j);
  }

  seen(i, j) {
    return j >= this.arrays.first[i] && j < this.arrays.stop[i];
  }

  partial(i, j) {
    return this.seen(i, j) && (j < this.arrays.full_first[i] || j >= this.arrays.full_stop[i]);
  }

  share(i, j) {
    return this.arrays.share[i * this.keyBlocks + j];
  }

  queryRows(i) {
    return Math.min(this.drawn.block_q, this.drawn.seq_q - i * this.drawn.block_q);
  }

  keyRows(j) {
    return Math.min(this.drawn.block_kv, this.drawn.seq_kv - j * this.drawn.block_kv);
  }

  blockOf(index) {
    return Math.floor(this.rows[index] / this.drawn.block_q);
  }

  /** Index of a sampled row of a query block, at a fraction of its height. */
  rowOf(block, slot) {
    const start = this.rowStart[block], count = this.rowStart[block + 1] - start;
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

  /** m, l, alpha and lse of a sampled row once key tile j is added; before its first tile m is -infinity. */
  after(index, j) {
    const block = this.blockOf(index), back = this.run.reverse ? 1 : -1;
    const first = this.run.reverse ? this.arrays.stop[block] - 1 : this.arrays.first[block];
    if ((j - first) * back > 0) return { m: -Infinity, l: 0, alpha: NaN, lse: -Infinity };
    const columns = this.arrays.m.length / this.rows.length; // one where a row is reduced whole
    const at = index * columns + (columns > 1 ? j : 0);
    const [m, l] = [this.arrays.m[at], this.arrays.l[at]];
    const before = columns > 1 && j !== first ? this.arrays.m[at + back] : -Infinity;
    return { m, l, alpha: before === -Infinity ? 0 : Math.exp(before - m), lse: l > 0 ? m + Math.log(l) : -Infinity };
  }
}
