// The race's algorithms on one scale of modelled time.

import { capital, duration, grouped } from "../canvas/format.js";
import { misfitSentence } from "./race_story.js";
import { drawnNote } from "./size_words.js";

/** All on one scale of modelled time, kernel by kernel. */
export class ClockPanel {
  follows = ["seconds"];

  /** What the clock counts, and on what. */
  about({ chip, asked, scaled, drawn }) {
    const heads = asked.heads === 1 ? "1 head" : `all ${grouped(asked.heads)} heads (batch × heads) at once`;
    const note = scaled ? `${drawnNote({ drawn, asked })} · ` : "";
    return `${note}one forward pass, ${heads}, on one ${chip.name}; shown are the steps of one`;
  }

  paint(pen, box, { model, seconds }) {
    const { u, theme } = pen,
      name = 150 * u,
      number = 90 * u;
    const track = { x: box.x + name, w: box.w - name - number },
      scale = track.w / model.longest;
    const pitch = Math.min(44 * u, (box.h - 44 * u) / model.algorithms.length);
    pen.rule(box.x, box.y, box.w);
    pen.text("Modelled time on one scale", box.x, box.y + 24 * u, { size: 15, weight: 600 });
    const look = { size: 12.5, color: model.scaled ? theme.K : theme.muted, room: box.w - 230 * u };
    pen.right(this.about(model), box.x + box.w, box.y + 24 * u, look);
    const wrong = { size: 12, color: theme.bad };
    model.algorithms.forEach((algorithm, n) => {
      const run = model.runs[algorithm],
        y = box.y + 44 * u + n * pitch,
        h = 14 * u,
        misfit = model.misfits[algorithm];
      const done = !misfit && seconds >= run.time,
        elapsed = Math.min(seconds, run.time);
      const color = done && algorithm === model.finishing[0] ? theme.good : theme.statistics;
      const style = { size: 13.5, weight: done ? 700 : 400 };
      pen.text(capital(run.title), box.x, y + h - 2 * u, style);
      pen.box(track.x, y, track.w, h, theme.panel, 3);
      if (misfit)
        return pen.text(misfitSentence(misfit), track.x + 8 * u, y + h - 2.5 * u, {
          ...wrong,
          room: track.w,
        });
      pen.box(track.x, y, Math.max(2, run.time * scale), h, theme.cell, 3);
      pen.box(track.x, y, elapsed * scale, h, color, 3);
      for (const end of run.phaseEnds.slice(0, -1)) {
        pen.ctx.fillStyle = theme.ground;
        pen.ctx.fillRect(track.x + end * scale - u, y, 2 * u, h);
      }
      const ink = done ? theme.ink : theme.muted;
      pen.right(duration(run.time), box.x + box.w, y + h - 2 * u, { ...style, mono: true, color: ink });
    });
  }
}
