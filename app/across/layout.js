// Where the grids, the ring and the lanes lie.

import { clamp } from "../canvas/format.js";
import { NARROW } from "../canvas/stage.js";
import { GridPanel } from "./grid.js";
import { LanesPanel } from "./lanes.js";
import { CirclePanel } from "./ring.js";

const MOST_GRIDS = 2,
  LEAST_RING = 190; // units of height that a ring with its blocks takes

/** Grids above the ring at the left, lanes of all runs at the right; on a phone the lanes below. */
export function acrossLayout({ runs }, { width: w, height: h, u }) {
  const narrow = w < NARROW,
    gap = 24 * u,
    grids = [...runs.keys()].filter((n) => runs[n].hasTiles && runs[n].ring).slice(0, MOST_GRIDS);
  const eachOf = (side) => (side - (grids.length - 1) * gap) / Math.max(1, grids.length),
    highOf = (side, most) => Math.min(eachOf(side) + 20 * u, most);
  const usual = clamp(0.31 * w, 300 * u, 520 * u),
    low = !narrow && grids.length > 0 && h - highOf(usual, 0.52 * h) - 16 * u < LEAST_RING * u,
    side = narrow ? w : low ? 0.42 * w : usual, // a low picture has the grids alone, and larger
    high = highOf(side, narrow ? 0.28 * h : low ? h : 0.52 * h),
    each = eachOf(side),
    circle = narrow ? 0.3 * h : h - high - 16 * u,
    left = narrow ? 0 : side + gap,
    top = narrow ? high + circle + 32 * u : 0,
    axis = 16 * u, // below the lowest lanes
    lane = (h - top - axis) / runs.length;
  return [
    ...grids.map((number, n) => [GridPanel, { x: n * (each + gap), y: 0, w: each, h: high }, { number }]),
    ...(low ? [] : [[CirclePanel, { x: 0, y: high + 16 * u, w: side, h: circle }]]),
    ...runs.map((_, number) => {
      const lowest = number === runs.length - 1,
        box = { x: left, y: top + number * lane, w: w - left, h: lane + (lowest ? axis : 0) };
      return [LanesPanel, box, { number, lowest }];
    }),
  ];
}
