// Calls as a chip sampled them: what crossed HBM, and what was at work, until any moment.

import { clamp } from "../canvas/format.js";
import { Spans } from "../canvas/spans.js";
import { unpack } from "../canvas/unpack.js";

const AROUND = 5; // intervals on each side of a moment, of what is said of it

/** `about` is what is said of a call, `columns` have a number an interval: bytes, or thousandths of a unit at work. */
export class Flow {
  constructor(about, columns) {
    Object.assign(this, about, { columns });
    this.sums = Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, summed(column)]));
  }

  /** What a column adds up to until a moment, in microseconds. */
  until(name, time) {
    const sums = this.sums[name],
      at = clamp(time / this.interval, 0, sums.length - 1),
      whole = Math.floor(at);
    return sums[whole] + (at - whole) * ((sums[whole + 1] ?? 0) - sums[whole] || 0);
  }

  /** Its mean from one moment to another, of an interval. */
  mean(name, from, to) {
    return ((this.until(name, to) - this.until(name, from)) * this.interval) / (to - from);
  }

  /** The share of what the memory delivers that crosses around a moment, both ways. */
  busy(time) {
    const from = Math.max(0, time - AROUND * this.interval),
      to = Math.min(this.end, time + AROUND * this.interval);
    return (this.mean("read", from, to) + this.mean("written", from, to)) / this.most;
  }

  /** All bytes of both ways until a moment. */
  moved(time) {
    return this.until("read", time) + this.until("written", time);
  }
}

/** Of each way: its name, its colour, and to which side of the line it stands. */
export const WAYS = [
  ["read", "Q", -1],
  ["written", "O", 1],
];

/**
 * A call's bytes on a canvas from one abscissa to another, read above a line and written below it: `timeAt` a point,
 * `tall` pixels of a share of what the memory delivers, and a colour's `shade` at a time.
 */
export function drawFlow(ctx, flow, { from, to, zero, pixel }, timeAt, tall, shade) {
  for (let x = from; x < to; x += pixel) {
    const [begin, end] = [timeAt(x), timeAt(x + pixel)];
    for (const [way, color, side] of WAYS) {
      ctx.fillStyle = shade(color, begin);
      ctx.fillRect(x, zero, pixel, side * tall(flow.mean(way, begin, end) / flow.most));
    }
  }
}

function summed(column) {
  let sum = 0;
  return Float64Array.from([0, ...column], (value) => (sum += value));
}

export class Sampled {
  constructor(bytes) {
    const { header, arrays } = unpack(bytes);
    Object.assign(this, header);
    this.lanes = header.lanes.map(
      (lane, n) => new Flow({ ...lane, blocks: arrays[`blocks${n}`] }, arrays[`lane${n}`]),
    );
    this.blocks = this.lanes.some(({ blocks }) => blocks); // of any of them
    const [start, end] = [0, 1].map((at) =>
      this.lanes.flatMap(({ kernels }) => kernels.map((one) => one[at])),
    );
    this.spans = new Spans({}, { start, end });
    this.longest = Math.max(...this.lanes.map((lane) => lane.interval * lane.columns.written.length));
  }
}
