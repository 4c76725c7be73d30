// Where things lie: panels on the stage, tiles in their grid.

import assert from "node:assert/strict";
import test from "node:test";
import { acrossLayout } from "../../app/across/across.js";
import { ChartPanel } from "../../app/gpu/chart.js";
import { GridLayout } from "../../app/player/grid_layout.js";
import { layoutOf } from "../../app/player/layout.js";
import { Model } from "../../app/player/model.js";
import { toy } from "./payload.js";

const model = new Model(toy());
const stage = (width, height, u = 1) => ({ width, height, u });
const nameOf = ([Panel]) => Panel.name.replace(/Panel$/, "");
const named = (placed) => placed.map(nameOf).join(" ");
const overlap = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

/** Whether all boxes lie on the stage, and none on another. */
function tidy(placed, { width, height }) {
  placed.forEach(([, box], n) => {
    const [right, bottom] = [box.x + box.w, box.y + box.h];
    assert.ok(Math.min(box.x, box.y, width + 1e-9 - right, height + 1e-9 - bottom) >= 0, nameOf(placed[n]));
    for (const other of placed.slice(n + 1))
      assert.ok(!overlap(box, other[1]), `${nameOf(placed[n])} on another`);
  });
}

test("panels lie beside each other, in a smaller room fewer of them, and none is shrunk", () => {
  const all = "Grid Memory Chip Traffic Code Row",
    least = { Memory: 145, Chip: 204, Traffic: 200, Code: 182, Row: 172, Grid: 230 };
  for (const [width, height, u, names] of [
    [1390, 700, 1, all],
    [1870, 880, 1.3, all],
    [1230, 600, 1, all],
    [2500, 1200, 1.8, all],
    [1230, 470, 1.4, "Grid Memory Traffic Row"], // in a hall's type
    [1100, 600, 1, all],
    [1100, 560, 1, "Grid Memory Chip Traffic Row"], // the code goes first, then memory
    [1100, 500, 1, "Grid Chip Traffic Row"],
    [740, 700, 1, "Grid Traffic Memory Chip Row"], // a tablet has two columns
    [740, 430, 1, "Grid Traffic Row"],
    [740, 330, 1, "Grid Traffic Row"],
    [740, 290, 1, "Grid Traffic"],
    [380, 700, 1, "Grid Traffic Row"],
    [380, 500, 1, "Grid Traffic"],
  ]) {
    const size = stage(width, height, u),
      placed = layoutOf(size, model, false);
    assert.equal(named(placed), names, `${width} by ${height}`);
    tidy(placed, size);
    if (width === 1100) for (const one of placed) assert.ok(one[1].h >= least[nameOf(one)]);
  }
});

test("a race has a lane for each algorithm, equally wide, and the clock below", () => {
  for (const count of [2, 3, 4]) {
    const algorithms = Array.from({ length: count }, (_, n) => `a${n}`),
      racing = Object.assign(Object.create(model), { algorithms }),
      placed = layoutOf(stage(1390, 700), racing, true),
      lanes = placed.slice(0, count);
    assert.equal(named(placed), `${"Race ".repeat(count)}Clock`);
    assert.equal(new Set(lanes.map(([, box]) => box.w.toFixed(6))).size, 1);
    assert.ok(Math.abs(lanes.at(-1)[1].x + lanes.at(-1)[1].w - 1390) < 1e-9);
    tidy(placed, stage(1390, 700));
  }
});

test("tiles are as wide as their rows, the last ones narrower, and are found at their points", () => {
  const grid = new GridLayout(model, { x: 0, y: 0, w: 600, h: 446 }, { left: 0, right: 0 }, 1, 1);
  const [x, y, w, h] = grid.cell(1, 1);
  assert.equal(grid.x[1] - grid.x[0], 2 * (grid.x[2] - grid.x[1]));
  assert.deepEqual([x, y], [grid.x[1], grid.y[1]]);
  assert.deepEqual([w, h], [grid.x[2] - grid.x[1] - 2, grid.y[2] - grid.y[1] - 2]); // 2 px between tiles this large
});

test("the SMs keep most of a chart's height, however low it is", () => {
  const lane = { sms: 132 };
  for (const [w, h, u] of [
    [870, 170, 1.4], // beside another, in a hall's type
    [760, 250, 1],
    [348, 200, 0.83],
  ]) {
    const chart = Object.assign(new ChartPanel(), { lane, u });
    chart.layout({ x: 0, y: 0, w, h });
    assert.ok(chart.plot.h > 0.4 * h, `${w} by ${h}`);
    assert.ok(chart.plot.y + chart.high < h);
  }
});

test("a low picture across GPUs has no ring, and larger grids instead", () => {
  const cluster = { runs: [0, 1].map(() => ({ ring: true })) },
    tall = acrossLayout(cluster, stage(1110, 620)),
    low = acrossLayout(cluster, stage(890, 330));
  assert.equal(named(tall), "Grid Grid Circle Lanes Lanes");
  assert.equal(named(low), "Grid Grid Lanes Lanes");
  assert.ok(low[0][1].w > 0.2 * 890 - 24);
  tidy(tall, stage(1110, 620));
  tidy(low, stage(890, 330));
});
