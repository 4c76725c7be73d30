// Where the charts and what is computed lie.

import { clamp } from "../canvas/format.js";
import { NARROW } from "../canvas/stage.js";
import { ChartPanel } from "./chart.js";
import { HeadsPanel, TilesPanel } from "./heads_and_tiles.js";

/** Charts of all timelines at the left, what they compute at the right; on a phone below them, side by side. */
export function gpuLayout(model, { width: w, height: h, u }) {
  const narrow = w < NARROW,
    gap = (narrow ? 20 : 30) * u,
    side = narrow ? (w - gap) / 2 : clamp(0.27 * w, 230 * u, 420 * u);
  const low = narrow ? 220 * u : 0,
    wide = narrow ? w : w - side - gap,
    between = 12 * u;
  const each = (h - low - (model.lanes.length - 1) * between) / model.lanes.length,
    upper = 0.4 * h,
    right = w - side;
  const [written, tiles] = narrow
    ? [
        { x: 0, y: h - low + between, w: side, h: low - between },
        { x: right, y: h - low + between, w: side, h: low - between },
      ]
    : [
        { x: right, y: 0, w: side, h: upper },
        { x: right, y: upper + 22 * u, w: side, h: h - upper - 22 * u },
      ];
  return [
    ...model.lanes.map((_, n) => ({
      panel: new ChartPanel(n),
      box: { x: 0, y: n * (each + between), w: wide, h: each },
    })),
    { panel: new HeadsPanel(0), box: written },
    { panel: new TilesPanel(0), box: tiles },
  ];
}
