// Where the charts and what is computed lie.

import { clamp } from "../canvas/format.js";
import { NARROW } from "../canvas/stage.js";
import { ChartPanel } from "./chart.js";
import { HeadsPanel, TilesPanel } from "./heads_and_tiles.js";

/** Charts of all timelines at the left, what they compute at the right; on a phone below them, side by side. */
export function gpuLayout({ lanes }, { width: w, height: h, u }) {
  const narrow = w < NARROW,
    gap = (narrow ? 20 : 30) * u,
    side = narrow ? (w - gap) / 2 : clamp(0.27 * w, 230 * u, 420 * u),
    low = narrow ? 220 * u : 0,
    wide = narrow ? w : w - side - gap,
    between = 12 * u,
    each = (h - low - (lanes.length - 1) * between) / lanes.length,
    upper = narrow ? low - between : 0.4 * h,
    top = narrow ? h - upper : 0,
    right = w - side;
  return [
    ...lanes.map((lane, n) => [ChartPanel, { x: 0, y: n * (each + between), w: wide, h: each }, { lane }]),
    [HeadsPanel, { x: narrow ? 0 : right, y: top, w: side, h: upper }],
    narrow
      ? [TilesPanel, { x: right, y: top, w: side, h: upper }]
      : [TilesPanel, { x: right, y: upper + 22 * u, w: side, h: h - upper - 22 * u }],
  ];
}
