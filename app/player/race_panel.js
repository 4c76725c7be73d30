// A lane of the race for each algorithm.

import { capital, duration } from "../canvas/format.js";
import { GridLayout } from "./grid_layout.js";
import { GridPanel } from "./grid_panel.js";
import { doing } from "./race_story.js";
import { amountBar, LEVELS } from "./traffic_panel.js";

const PLACES = ["first", "second", "third", "fourth"];

/** One lane of the race: its grid, its clock, its bytes. */
export class RacePanel extends GridPanel {
  layout({ x, y, w, h }) {
    const { model, u, dpr } = this,
      room = { x, y: y + 42 * u, w, h: h - 118 * u };
    this.run = model.runs[this.name];
    this.misfit = model.misfits[this.name];
    const tiles = model.on(this.run);
    this.place(new GridLayout(tiles, room, { left: 20 * u, right: 44 * u }, u, dpr), tiles, this.run);
  }

  signature({ seconds }) {
    const step = this.run.stepAt(seconds);
    return step >= this.run.steps ? "done" : `${step} ${duration(seconds)}`;
  }

  paint(pen, box, { model, seconds }) {
    const { run, misfit, grid } = this,
      { u, theme } = pen,
      { sms } = model.chip,
      step = misfit ? -1 : run.stepAt(seconds),
      done = step >= run.steps,
      place = model.finishing.indexOf(this.name),
      won = done && place === 0,
      few = run.blocks < sms && !misfit,
      color = misfit ? theme.muted : won ? theme.good : theme.ink,
      right = box.x + box.w,
      y = box.y + 18 * u,
      elapsed = misfit ? "–" : duration(Math.min(seconds, run.time)),
      state = misfit ? "cannot start" : done ? `${PLACES[place]}, done` : doing(run, step),
      whose = few ? `modelled, ${run.blocks} of ${sms} SMs busy` : "modelled time",
      look = { color: won ? theme.good : theme.muted, weight: done ? 600 : 400 };
    pen.text(capital(run.title), box.x, y, { size: 17, weight: 700, color });
    pen.value(elapsed, right, y, { color });
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
      { x0, y0, w, h } = this.grid,
      tall = (40 + 20 * reasons.length) * u,
      wide = Math.min(w, 250 * u),
      [x, y] = [x0 + w / 2, y0 + (h - tall) / 2],
      box = [x - wide / 2, y, wide, tall];
    pen.box(...box, theme.panel, 6);
    pen.frame(...box, theme.bad, u, 6);
    pen.centered(verdict, x, y + 25 * u, { size: 16, weight: 700, color: theme.bad });
    reasons.forEach((reason, n) =>
      pen.centered(reason, x, y + (46 + 20 * n) * u, { size: 13, room: wide - 16 * u }),
    );
  }
}
