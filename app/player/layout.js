// Where the panels of the single player, of the race and of a narrow screen lie.

import { cut } from "../canvas/cut.js";
import { clamp } from "../canvas/format.js";
import { NARROW, ROOMY } from "../canvas/stage.js";
import { BackwardGridPanel, BackwardRowPanel, BackwardTrafficPanel } from "./backward_panels.js";
import { ChipPanel } from "./chip_panel.js";
import { CodePanel } from "./code_panel.js";
import { GridPanel } from "./grid_panel.js";
import { MemoryPanel } from "./memory_panel.js";
import { ClockPanel, RacePanel } from "./race.js";
import { RowPanel } from "./row_panel.js";
import { SplitGridPanel } from "./split_grid.js";
import { TrafficPanel } from "./traffic_panel.js";

const BETWEEN = 16; // units between panels
const NARROWEST = 240; // units of width in which the memories can be told
const BARS = 212; // units of height that bytes take at most
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
    crowded = w < ROOMY * u,
    all = { x: 0, y: 0, w, h };
  if (race && (narrow || (u > 1 && crowded))) return [[ClockPanel, all]];
  if (race) return raceLayout(all, u, model);
  const layout = narrow && w <= 1.2 * h ? phoneLayout : crowded ? tabletLayout : singleLayout;
  return layout(all, u, model);
}

function singleLayout(all, u, model) {
  const [Grid, Traffic, Row] = panelsOf(model),
    inner = 24 * u, // that the pipe to the SM bridges
    [upper, row] = cut(all, "y", 8 * u, [null, LEAST.row * u]),
    gridW = Math.min(0.43 * all.w, upper.h + 16 * u),
    [grid, beside] = cut(upper, "x", 36 * u, [gridW, null]),
    [left, right] = cut(beside, "x", inner, [null, null]),
    both = (...names) => names.reduce((sum, name) => sum + LEAST[name], BETWEEN) * u <= upper.h,
    parts = (box, least, share, most) =>
      cut(box, "y", BETWEEN * u, [null, clamp(share * upper.h, least * u, most * u)]),
    [memory, traffic] = both("memory", "traffic") ? parts(left, LEAST.traffic, 0.45, BARS) : [null, left],
    [chip, code] = both("chip", "code") ? parts(right, LEAST.code, 0.42, 196) : [right];
  return [
    [Grid, grid],
    memory && [MemoryPanel, { ...memory, w: memory.w + inner - 8 * u }],
    [ChipPanel, chip],
    [Traffic, traffic],
    code && [CodePanel, code],
    [Row, row],
  ].filter(Boolean);
}

/** Two columns: bytes beside the grid, and below them what there is height for. */
function tabletLayout(all, u, model) {
  const [Grid, Traffic, Row] = panelsOf(model),
    gap = 24 * u,
    { w, h } = all,
    bars = (box) => [Traffic, { ...box, h: Math.min(box.h, BARS * u) }],
    below = (box) => numbers(model, { ...box, y: BARS * u, h: box.h - BARS * u }, u),
    beside = (box) => cut(box, "x", gap, [null, null]),
    [upper, row] = cut(all, "y", 8 * u, [null, LEAST.row * u]);
  if (upper.h >= (LEAST.grid + BETWEEN + LEAST.chip) * u) {
    const [top, lower] = cut(upper, "y", BETWEEN * u, [null, LEAST.chip * u]),
      [grid, traffic] = beside(top),
      [memory, chip] = beside(lower);
    const memories = [MemoryPanel, { ...memory, w: memory.w + gap - 8 * u }];
    return [[Grid, grid], bars(traffic), memories, [ChipPanel, chip], [Row, row]];
  }
  if (upper.h >= LEAST.grid * u) {
    const [grid, traffic] = beside(upper);
    return [[Grid, grid], bars(traffic), [Row, row]];
  }
  const side = Math.min(0.36 * w, h + 20 * u), // as where type is large: the grid, the memories, and bytes
    [grid, memory, third] = cut(all, "x", gap, [side, null, null]);
  if (third.w >= NARROWEST * u) {
    const memories = [MemoryPanel, { ...memory, h: Math.min(h, 300 * u) }];
    return [[Grid, grid], memories, bars(third), ...below(third)];
  }
  const [left, right] = beside(all);
  return [[Grid, left], bars(right), ...below(right)];
}

/** One below the other. */
function phoneLayout(all, u, model) {
  const [Grid, Traffic] = panelsOf(model),
    { w, h } = all,
    between = 10 * u,
    traffic = BARS * u,
    spare = h - (LEAST.grid + LEAST.numbers) * u - traffic - 2 * between,
    low = spare < 0 ? 0 : LEAST.numbers * u,
    row = numbers(model, { x: 0, y: h - low, w, h: low }, u),
    below = traffic + (row.length ? low + between : 0),
    top = Math.min(w + 60 * u, h - below - between);
  return [[Grid, { ...all, h: top }], [Traffic, { ...all, y: top + between, h: traffic }], ...row];
}

/** What one row knows, as numbers alone; a backward pass has too many, and a low box no room. */
function numbers(model, box, u) {
  return model.backward || box.h < LEAST.numbers * u ? [] : [[RowPanel, box]];
}

function raceLayout(all, u, model) {
  const gap = 44 * u,
    { algorithms } = model,
    none = algorithms.map(() => null),
    each = cut(all, "x", gap, none)[0].w,
    [upper, clock] = cut(all, "y", 0, [Math.min(all.h - 150 * u, each + 108 * u), null]);
  return [
    ...cut(upper, "x", gap, none).map((box, n) => [RacePanel, box, { name: algorithms[n] }]),
    [ClockPanel, clock],
  ];
}
