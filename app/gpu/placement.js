// A timeline, unpacked once: which block ran where and when, and how many ran at any moment.

import { countUpTo } from "../canvas/format.js";
import { merged, Spans } from "../canvas/spans.js";
import { unpack } from "../canvas/unpack.js";
import { Flow } from "../hbm/flow.js";

export const NOWHERE = -1; // a block that is confined to no query block, or to no key block

class Placement extends Spans {
  constructor(about, columns, sms) {
    super({ ...about, sms }, columns);
    this.starts = this.start.slice().sort();
    this.ends = this.end.slice().sort();
    this.microseconds = this.ends.at(-1); // as rounded as the ends are, so that all are done then
    this.place();
  }

  /** The place of each block among those that share its SM, and when each SM has work at all. */
  place() {
    this.slot = new Uint8Array(this.count);
    this.ofSm = Array.from({ length: this.sms }, () => []);
    for (const n of Uint32Array.from(this.sm.keys()).sort((a, b) => this.start[a] - this.start[b]))
      this.ofSm[this.sm[n]].push(n);
    for (const blocks of this.ofSm) this.seat(blocks);
    this.used = this.ofSm.filter((blocks) => blocks.length).length;
    const busy = this.ofSm.flatMap((blocks) => merged(blocks.map((n) => [this.start[n], this.end[n]])));
    [this.begun, this.ended] = [0, 1].map((at) => Float32Array.from(busy, (span) => span[at]).sort());
  }

  /** Each of an SM's blocks takes the place that was left first, of as many as its kernel has there. */
  seat(blocks) {
    let free = [],
      kernel = NOWHERE;
    for (const n of blocks) {
      if (this.kernel[n] !== kernel) {
        kernel = this.kernel[n];
        free = new Float64Array(this.resident[kernel]);
      }
      this.slot[n] = free.indexOf(Math.min(...free));
      free[this.slot[n]] = this.end[n];
    }
  }

  /** Blocks done and running, and SMs that run any, at a time in microseconds. */
  at(time) {
    const started = countUpTo(this.starts, time),
      done = countUpTo(this.ends, time);
    return { done, running: started - done, busy: countUpTo(this.begun, time) - countUpTo(this.ended, time) };
  }

  /** Where a block's query block stands among all, 0 to 1. */
  shade(n, queryBlocks) {
    return queryBlocks > 1 && this.query[n] !== NOWHERE ? this.query[n] / (queryBlocks - 1) : 1;
  }
}

export class Recorded {
  constructor(bytes) {
    const { header, arrays } = unpack(bytes);
    Object.assign(this, header);
    this.lanes = header.lanes.map((lane, n) => {
      const flow = lane.flow && new Flow(lane.flow, arrays[`flow${n}`]);
      return new Placement({ ...lane, flow }, arrays[`lane${n}`], header.sms);
    });
    const ends = this.lanes.map(({ microseconds }) => microseconds);
    this.longest = Math.max(...ends);
    this.first = 0.45 * Math.min(...ends); // all are at work
  }

  /** When a block of any lane next starts or ends, or last did. */
  eventBeside(time, by) {
    const events = this.lanes.map((lane) => lane.eventBeside(time, by));
    return by > 0 ? Math.min(...events) : Math.max(...events);
  }
}
