// The race's algorithms on one scale of modelled time.

import { capital, duration, grouped } from "../canvas/format.js";
import { misfitSentence } from "./race_story.js";
import { drawnNote } from "./size_words.js";

/** All on one scale of modelled time, kernel by kernel. */
export class ClockPanel {
  follows = ["seconds"];

  paint(pen, box, { model, seconds }) {
    const { chip, asked, scaled, algorithms, longest } = model,
      { u, theme } = pen,
      [name, number] = [150 * u, 90 * u],
      track = { x: box.x + name, w: box.w - name - number },
      pitch = Math.min(44 * u, (box.h - 44 * u) / algorithms.length),
      heads = asked.heads === 1 ? "1 head" : `all ${grouped(asked.heads)} heads (batch × heads) at once`,
      note = scaled ? `${drawnNote(model)} · ` : "",
      about = `${note}one forward pass, ${heads}, on one ${chip.name}; shown are the steps of one`,
      look = { size: 12.5, color: scaled ? theme.K : theme.muted, room: box.w - 230 * u };
    pen.rule(box.x, box.y, box.w);
    pen.text("Modelled time on one scale", box.x, box.y + 24 * u, { size: 15, weight: 600 });
    pen.right(about, box.x + box.w, box.y + 24 * u, look);
    algorithms.forEach((algorithm, n) => {
      const misfit = model.misfits[algorithm],
        lane = { x: track.x, y: box.y + 44 * u + n * pitch, w: track.w, h: 14 * u };
      this.lane(pen, box, lane, model.runs[algorithm], {
        ...{ misfit, seconds, scale: track.w / longest, first: algorithm === model.finishing[0] },
      });
    });
  }

  lane(pen, box, { x, y, w, h }, run, { misfit, seconds, scale, first }) {
    const { u, theme } = pen,
      done = !misfit && seconds >= run.time,
      base = y + h - 2 * u,
      style = { size: 13.5, weight: done ? 700 : 400 },
      wrong = { size: 12, color: theme.bad, room: w };
    pen.text(capital(run.title), box.x, base, style);
    pen.box(x, y, w, h, theme.panel, 3);
    if (misfit) return pen.text(misfitSentence(misfit), x + 8 * u, y + h - 2.5 * u, wrong);
    pen.box(x, y, Math.max(2, run.time * scale), h, theme.cell, 3);
    const color = done && first ? theme.good : theme.statistics;
    pen.box(x, y, Math.min(seconds, run.time) * scale, h, color, 3);
    for (const end of run.phaseEnds.slice(0, -1)) pen.box(x + end * scale - u, y, 2 * u, h, theme.ground, 0);
    const time = { ...style, mono: true, color: done ? theme.ink : theme.muted };
    pen.right(duration(run.time), box.x + box.w, base, time);
  }
}
