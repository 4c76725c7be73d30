// What lasts: columns with a start and an end for each of many, such as blocks on SMs or transfers between GPUs.

import { countUpTo, countWhile } from "./format.js";

/** Pairs of a start and an end as the times at which any of them lasts: those that meet are one. */
export function merged(pairs) {
  const found = [];
  for (const [start, end] of pairs.toSorted((a, b) => a[0] - b[0])) {
    const last = found.at(-1);
    if (last && start <= last[1] + 1e-12) last[1] = Math.max(last[1], end);
    else found.push([start, end]);
  }
  return found;
}

export class Spans {
  /** `about` is what is said of all, `columns` has an array for each of their properties; `ends` are moments beside their own. */
  constructor(about, columns, ends = []) {
    Object.assign(this, about, columns, { count: columns.start.length });
    this.events = Float32Array.from(new Set([0, ...this.start, ...this.end, ...ends])).sort();
  }

  /** The part of one that is done, 0 to 1; -1 before it starts. */
  progress(n, time) {
    if (time < this.start[n]) return -1;
    return time >= this.end[n] ? 1 : (time - this.start[n]) / (this.end[n] - this.start[n]);
  }

  /** When something next starts or ends, or last did; Infinity and 0 where nothing does. */
  eventBeside(time, by) {
    const now = Math.fround(time); // as rounded as they are
    if (by > 0) return this.events[countUpTo(this.events, now)] ?? Infinity;
    return this.events[countWhile(this.events, (event) => event < now) - 1] ?? 0;
  }
}
