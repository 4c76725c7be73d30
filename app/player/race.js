// The race: its words, a lane for each algorithm, and all on one scale of modelled time.

import { capital, counted, duration, grouped, plural, times } from "../canvas/format.js";
import { GridLayout } from "./grid_layout.js";
import { GridPanel } from "./grid_panel.js";
import { drawnNote } from "./size_words.js";
import { amountBar, LEVELS } from "./traffic_panel.js";

/** What an algorithm is doing, short. */
export function doing(run, step) {
  if (step < 0) return "at the start";
  const kernel = run.phase[step] + 1,
    { name, outer } = run.phases[kernel - 1],
    where = outer === "query" ? `query tile ${run.query[step]}` : `key tile ${run.key[step]}`;
  return run.phases.length > 1 ? `kernel ${kernel} of ${run.phases.length}, ${name}: ${where}` : where;
}

/** Where the race stands. */
export function raceSentence(model, seconds) {
  const { runs, finishing: order, algorithms, chip, misfits } = model,
    title = (name) => runs[name].title,
    took = (name) => duration(runs[name].time),
    unfit = algorithms.filter((name) => misfits[name]).map(title),
    does = unfit.length > 1 ? "do" : "does",
    out = unfit.length ? ` ${capital(unfit.join(" and "))} ${does} not fit.` : "";
  if (!order.length)
    return `${algorithms.length === 2 ? "Neither" : "None"} of the ${counted(algorithms.length)} fits the ${chip.name}, so nothing races. Each lane says what its algorithm needs.`;
  const [winner] = order,
    slowest = order.at(-1),
    alone = order.length === 1,
    first = capital(title(winner));
  if (seconds <= 0)
    return alone
      ? `${first} runs alone on a clock of modelled time.${out}`
      : `${capital(plural(order.length, "algorithm"))} compute one head in the same tiles, on one clock of modelled time. Which is done first?${out}`;
  if (seconds >= runs[slowest].time)
    return alone
      ? `${first} took ${took(winner)}, modelled.${out}`
      : `${first} finished first, after ${took(winner)}: ${times(runs[slowest].time / runs[winner].time)} times as fast as ` +
          `${title(slowest)} (${took(slowest)}, both modelled)${fewBlocks(chip, runs[slowest])}.${out}`;
  const is = order.map((name) =>
    runs[name].time <= seconds
      ? `${title(name)} was done after ${took(name)}`
      : `${title(name)} is ${Math.floor(100 * (seconds / runs[name].time))}% through`,
  );
  const ended = order.filter((name) => runs[name].time <= seconds).length,
    going = is.slice(ended).join(", "),
    done = is.slice(0, ended).join(", ");
  const told = ended ? `${done}; ${going}` : `After ${duration(seconds)} of modelled time ${going}`;
  return `${capital(told)}.${out}`;
}

/** That a run has too few blocks for the GPU, which is why it is slow, as the end of a sentence; or nothing. */
function fewBlocks({ sms }, { blocks }) {
  if (!(blocks < sms)) return "";
  return `, whose ${plural(blocks, "thread block")} ${blocks === 1 ? "is" : "are"} too few for ${grouped(sms)} SMs`;
}

/** Why an algorithm cannot run, as one sentence: a verdict and what it rests on. */
export const misfitSentence = ([verdict, ...reasons]) => `${verdict}: it ${reasons.join(", but ")}.`;

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

  paint(pen, box, { model, seconds }) {
    const { run, misfit, grid, u, theme } = this,
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
    LEVELS.forEach(({ level, title, origin }, n) => {
      const area = { x: box.x, y: grid.y0 + grid.h + (8 + 31 * n) * u, w: box.w };
      amountBar(pen, area, { title: `${title}, ${origin}`, run, step, level, most: model.mostTraffic });
    });
  }
}

/** All on one scale of modelled time, kernel by kernel. */
export class ClockPanel {
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
