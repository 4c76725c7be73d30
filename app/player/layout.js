// Where the panels of the single player, of the race and of a narrow screen lie.

import { clamp } from "../canvas/format.js";
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
import { SplitGridPanel } from "./split_grid.js";
import { TrafficPanel } from "./traffic_panel.js";

const BETWEEN = 16; // units between panels
const NARROWEST = 240; // units of width in which the memories can be told
// units of height that a panel takes at least, its type as small as it gets
const LEAST = { grid: 230, memory: 145, traffic: 200, chip: 204, code: 182, row: 172, numbers: 96 };

/** The panels that differ between a forward pass and a backward one. */
function panelsOf(model) {
  return model.backward
    ? [BackwardGridPanel, BackwardTrafficPanel, BackwardRowPanel]
    : [model.run.parts.length > 1 ? SplitGridPanel : GridPanel, TrafficPanel, RowPanel];
}

/** New panels for a model and a mode, on a stage of this size: as many as it has room for at a legible size. */
export function layoutOf({ width: w, height: h, u }, model, race) {
  const narrow = w < NARROW,
    crowded = w < ROOMY * u;
  if (race && (narrow || (u > 1 && crowded))) return [[ClockPanel, { x: 0, y: 0, w, h }]];
  if (race) return raceLayout(w, h, u, model);
  const layout = narrow && w <= 1.2 * h ? phoneLayout : crowded ? tabletLayout : singleLayout;
  return layout(w, h, u, model);
}

function singleLayout(w, h, u, model) {
  const [Grid, Traffic, Row] = panelsOf(model);
  const gap = 36 * u,
    inner = 24 * u, // that the pipe to the SM bridges
    below = LEAST.row * u,
    top = h - below - 8 * u;
  const gridW = Math.min(0.43 * w, top - 72 * u + 88 * u),
    rest = w - gridW - gap - inner;
  const memoryX = gridW + gap,
    memoryW = 0.5 * rest,
    chipX = memoryX + memoryW + inner,
    chipW = rest - memoryW;
  const both = (...names) => names.reduce((sum, name) => sum + LEAST[name], BETWEEN) * u <= top;
  const trafficH = both("memory", "traffic") ? clamp(0.45 * top, LEAST.traffic * u, 212 * u) : top,
    codeH = both("chip", "code") ? clamp(0.42 * top, LEAST.code * u, 196 * u) : 0,
    above = (part) => top - part - BETWEEN * u;
  return [
    [Grid, { x: 0, y: 0, w: gridW, h: top }],
    trafficH < top && [MemoryPanel, { x: memoryX, y: 0, w: memoryW + inner - 8 * u, h: above(trafficH) }],
    [ChipPanel, { x: chipX, y: 0, w: chipW, h: codeH ? above(codeH) : top }],
    [Traffic, { x: memoryX, y: top - trafficH, w: memoryW, h: trafficH }],
    codeH && [CodePanel, { x: chipX, y: top - codeH, w: chipW, h: codeH }],
    [Row, { x: 0, y: h - below, w, h: below }],
  ].filter(Boolean);
}

/** Two columns: bytes beside the grid, and below them what there is height for. */
function tabletLayout(w, h, u, model) {
  const [Grid, Traffic, Row] = panelsOf(model),
    gap = 24 * u,
    left = (w - gap) / 2,
    right = { x: left + gap, w: w - left - gap },
    row = [Row, { x: 0, y: h - LEAST.row * u, w, h: LEAST.row * u }],
    above = h - (LEAST.row + 8) * u,
    lower = above - LEAST.chip * u;
  const beside = (high) => [
    [Grid, { x: 0, y: 0, w: left, h: high }],
    [Traffic, { ...right, y: 0, h: Math.min(high, 212 * u) }],
  ];
  if (lower >= (LEAST.grid + BETWEEN) * u)
    return [
      ...beside(lower - BETWEEN * u),
      [MemoryPanel, { x: 0, y: lower, w: left + gap - 8 * u, h: LEAST.chip * u }],
      [ChipPanel, { ...right, y: lower, h: LEAST.chip * u }],
      row,
    ];
  if (above >= LEAST.grid * u) return [...beside(above), row];
  const side = Math.min(0.36 * w, h + 20 * u), // as where type is large: the grid, the memories, and bytes
    third = (w - side - 2 * gap) / 2;
  if (third < NARROWEST * u)
    return [...beside(h), ...numbers(model, { ...right, y: 212 * u, h: h - 212 * u }, u)];
  return [
    [Grid, { x: 0, y: 0, w: side, h }],
    [MemoryPanel, { x: side + gap, y: 0, w: third, h: Math.min(h, 300 * u) }],
    [Traffic, { x: w - third, y: 0, w: third, h: Math.min(h, 212 * u) }],
    ...numbers(model, { x: w - third, y: 212 * u, w: third, h: h - 212 * u }, u),
  ];
}

/** One below the other. */
function phoneLayout(w, h, u, model) {
  const [Grid, Traffic] = panelsOf(model),
    between = 10 * u,
    traffic = 212 * u,
    spare = h - (LEAST.grid + LEAST.numbers) * u - traffic - 2 * between,
    low = spare < 0 ? 0 : LEAST.numbers * u,
    row = numbers(model, { x: 0, y: h - low, w, h: low }, u),
    below = traffic + (row.length ? low + between : 0),
    top = Math.min(w + 60 * u, h - below - between);
  return [[Grid, { x: 0, y: 0, w, h: top }], [Traffic, { x: 0, y: top + between, w, h: traffic }], ...row];
}

/** What one row knows, as numbers alone; a backward pass has too many, and a low box no room. */
function numbers(model, box, u) {
  return model.backward || box.h < LEAST.numbers * u ? [] : [[RowPanel, box]];
}

function raceLayout(w, h, u, model) {
  const gap = 44 * u,
    count = model.algorithms.length,
    each = (w - (count - 1) * gap) / count,
    lanes = Math.min(h - 150 * u, each - 64 * u + 172 * u);
  const lane = (n) => ({ x: n * (each + gap), y: 0, w: each, h: lanes });
  return [
    ...model.algorithms.map((name, n) => [RacePanel, lane(n), { name }]),
    [ClockPanel, { x: 0, y: lanes, w, h: h - lanes }],
  ];
}
