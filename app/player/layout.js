// Where the panels of the single player, of the race and of a narrow screen lie.

import { NARROW, ROOMY } from "../canvas/stage.js";
import { BackwardGridPanel } from "./backward_grid.js";
import { BackwardRowPanel, BackwardTrafficPanel } from "./backward_panels.js";
import { ChipPanel } from "./chip_panel.js";
import { ClockPanel } from "./clock_panel.js";
import { CodePanel } from "./code_panel.js";
import { GridPanel } from "./grid_panel.js";
import { MemoryPanel } from "./memory_panel.js";
import { RacePanel } from "./race_panel.js";
import { RowPanel } from "./row_panel.js";
import { TrafficPanel } from "./traffic_panel.js";

/** The panels that differ between a forward pass and a backward one. */
function panelsOf(model) {
  return model.backward
    ? [BackwardGridPanel, BackwardTrafficPanel, BackwardRowPanel]
    : [GridPanel, TrafficPanel, RowPanel];
}

/** New panels for a model and a mode, on a stage of this size. */
export function layoutOf({ width, height, u }, model, race) {
  const crowded = width < NARROW || (u > 1 && width < ROOMY * u);
  const layout = crowded ? narrowLayout(race) : race ? raceLayout : singleLayout;
  return layout(width, height, u, model);
}

function singleLayout(w, h, u, model) {
  const [Grid, Traffic, Row] = panelsOf(model);
  const gap = 36 * u,
    inner = 24 * u, // that the pipe to the SM bridges
    below = 172 * u,
    top = h - below - 8 * u;
  const gridW = Math.min(0.43 * w, top - 72 * u + 88 * u),
    rest = w - gridW - gap - inner;
  const memoryX = gridW + gap,
    memoryW = 0.5 * rest,
    chipX = memoryX + memoryW + inner,
    chipW = rest - memoryW,
    trafficH = Math.min(212 * u, 0.45 * top),
    codeH = Math.min(196 * u, 0.42 * top),
    above = (h) => top - h - 16 * u;
  return [
    { panel: new Grid(), box: { x: 0, y: 0, w: gridW, h: top } },
    { panel: new MemoryPanel(), box: { x: memoryX, y: 0, w: memoryW + inner - 8 * u, h: above(trafficH) } },
    { panel: new ChipPanel(), box: { x: chipX, y: 0, w: chipW, h: above(codeH) } },
    { panel: new Traffic(), box: { x: memoryX, y: top - trafficH, w: memoryW, h: trafficH } },
    { panel: new CodePanel(), box: { x: chipX, y: top - codeH, w: chipW, h: codeH } },
    { panel: new Row(), box: { x: 0, y: h - below, w, h: below } },
  ];
}

function narrowLayout(race) {
  if (race) return (w, h) => [{ panel: new ClockPanel(), box: { x: 0, y: 0, w, h } }];
  return (w, h, u, model) => {
    const [Grid, Traffic] = panelsOf(model);
    const below = 240 * u,
      top = Math.min(w + 60 * u, h - below - 10 * u);
    if (w > 1.2 * h) {
      // low rather than narrow: side by side
      return [
        { panel: new Grid(), box: { x: 0, y: 0, w: 0.54 * w, h } },
        { panel: new Traffic(), box: { x: 0.58 * w, y: 0, w: 0.42 * w, h: Math.min(h, 280 * u) } },
      ];
    }
    return [
      { panel: new Grid(), box: { x: 0, y: 0, w, h: top } },
      { panel: new Traffic(), box: { x: 0, y: top + 10 * u, w, h: below } },
    ];
  };
}

function raceLayout(w, h, u, model) {
  const gap = 44 * u,
    count = model.algorithms.length,
    each = (w - (count - 1) * gap) / count,
    lanes = Math.min(h - 150 * u, each - 64 * u + 172 * u),
    clock = h - lanes;
  const boxes = model.algorithms.map((name, n) => ({
    panel: new RacePanel(name),
    box: { x: n * (each + gap), y: 0, w: each, h: lanes },
  }));
  return [...boxes, { panel: new ClockPanel(), box: { x: 0, y: lanes, w, h: clock } }];
}
