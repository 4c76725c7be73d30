// A lane of the race for each algorithm.

import { capital, duration } from "../canvas/format.js";
import { GridLayout } from "./grid_layout.js";
import { GridPainter } from "./grid_painter.js";
import { GridPanel } from "./grid_panel.js";
import { doing } from "./race_story.js";
import { amountBar, LEVELS } from "./traffic_panel.js";

const PLACES = ["first", "second", "third", "fourth"];

/** One lane of the race: its grid, its clock, its bytes. */
export class RacePanel extends GridPanel {
  layout(box) {
    const { model, u, dpr, theme } = this,
      run = model.runs[this.name],
      room = { x: box.x, y: box.y + 42 * u, w: box.w, h: box.h - 118 * u },
      tiles = model.on(run);
    this.grid = new GridLayout(tiles, room, { left: 20 * u, right: 44 * u }, u, dpr);
    this.painter = new GridPainter(tiles, run, this.grid, theme, u);
  }

  signature({ model, seconds }) {
    const run = model.runs[this.name],
      step = run.stepAt(seconds);
    return step >= run.steps ? "done" : `${step} ${duration(seconds)}`;
  }

  paint(pen, box, { model, seconds }) {
    const { u, theme } = pen,
      run = model.runs[this.name],
      misfit = model.misfits[this.name];
    const step = misfit ? -1 : run.stepAt(seconds),
      done = step >= run.steps;
    const place = model.finishing.indexOf(this.name),
      right = box.x + box.w,
      won = done && place === 0;
    const color = misfit ? theme.muted : won ? theme.good : theme.ink,
      y = box.y + 18 * u,
      grid = this.grid;
    pen.text(capital(run.title), box.x, y, { size: 17, weight: 700, color });
    const elapsed = misfit ? "–" : duration(Math.min(seconds, run.time));
    pen.value(elapsed, right, y, { color });
    const state = misfit ? "cannot start" : done ? `${PLACES[place]}, done` : doing(run, step);
    const few = run.blocks < model.chip.sms && !misfit;
    const whose = few ? `modelled, ${run.blocks} of ${model.chip.sms} SMs busy` : "modelled time";
    const look = { color: won ? theme.good : theme.muted, weight: done ? 600 : 400 };
    pen.note(state, box.x, y + 18 * u, { ...look, room: box.w - (few ? 194 : 104) * u });
    pen.note(whose, right, y + 18 * u, { align: "right" });
    pen.above("Q", grid.q, grid.y0, theme.Q);
    pen.above("O", grid.o, grid.y0, theme.O);
    this.painter.paint(pen, step);
    if (misfit) this.sign(pen, misfit);
    LEVELS.forEach(({ level, title, origin }, n) => {
      const area = { x: box.x, y: grid.y0 + grid.h + (8 + 31 * n) * u, w: box.w };
      amountBar(pen, area, { title: `${title}, ${origin}`, run, step, level, most: model.mostTraffic });
    });
  }

  /** Over a grid on which nothing will happen: why. */
  sign(pen, [verdict, ...reasons]) {
    const { u, theme } = pen,
      { x0, y0, w, h } = this.grid;
    const tall = (40 + 20 * reasons.length) * u,
      y = y0 + (h - tall) / 2,
      wide = Math.min(w, 250 * u),
      x = x0 + w / 2;
    pen.box(x - wide / 2, y, wide, tall, theme.panel, 6);
    pen.frame(x - wide / 2, y, wide, tall, theme.bad, u, 6);
    pen.centered(verdict, x, y + 25 * u, { size: 16, weight: 700, color: theme.bad });
    reasons.forEach((reason, n) =>
      pen.centered(reason, x, y + (46 + 20 * n) * u, { size: 13, room: wide - 16 * u }),
    );
  }
}
