// Where the grids, the ring and the lanes lie.

import { clamp } from "../canvas/format.js";
import { NARROW } from "../canvas/stage.js";
import { GridPanel } from "./grid.js";
import { LanesPanel } from "./lanes.js";
import { CirclePanel } from "./ring.js";

const MOST_GRIDS = 2,
  LEAST_RING = 190; // units of height that a ring with its blocks takes

/** Grids above the ring at the left, lanes of all runs at the right; on a phone the lanes below. */
export function acrossLayout(model, { width: w, height: h, u }) {
  const narrow = w < NARROW,
    gap = 24 * u,
    grids = model.runs.map((_, n) => n).filter((n) => model.runs[n].hasTiles && model.runs[n].ring);
  grids.length = Math.min(MOST_GRIDS, grids.length);
  const usual = clamp(0.31 * w, 300 * u, 520 * u),
    low = !narrow && grids.length > 0 && h - highOf(usual, grids, u, 0.52 * h) - 16 * u < LEAST_RING * u,
    side = narrow ? w : low ? 0.42 * w : usual, // a low picture has the grids alone, and larger
    high = highOf(side, grids, u, narrow ? 0.28 * h : low ? h : 0.52 * h),
    each = eachOf(side, grids, u);
  const panels = grids.map((n, at) => ({
    panel: new GridPanel(n),
    box: { x: at * (each + gap), y: 0, w: each, h: high },
  }));
  const circle = narrow ? 0.3 * h : h - high - 16 * u;
  if (!low) panels.push({ panel: new CirclePanel(), box: { x: 0, y: high + 16 * u, w: side, h: circle } });
  const left = narrow ? 0 : side + gap,
    top = narrow ? high + circle + 32 * u : 0;
  return [...panels, ...lanesIn(model, { x: left, y: top, w: w - left, h: h - top }, u)];
}

const eachOf = (side, grids, u) => (side - (grids.length - 1) * 24 * u) / Math.max(1, grids.length);

const highOf = (side, grids, u, most) => Math.min(eachOf(side, grids, u) + 20 * u, most);

function lanesIn(model, { x, y, w, h }, u) {
  const count = model.runs.length,
    axis = 16 * u,
    each = (h - axis) / count;
  return model.runs.map((_, n) => ({
    panel: new LanesPanel(n, n === count - 1),
    box: { x, y: y + n * each, w, h: each + (n === count - 1 ? axis : 0) },
  }));
}
