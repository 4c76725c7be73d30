// Three algorithms on one clock of modelled time.

/** What an algorithm is doing, short. */
function doing(run, step) {
  if (step < 0) return "at the start";
  if (step >= run.steps) return "done";
  const { name } = run.phases[run.phase[step]], tile = run.query[step], key = run.key[step];
  const where = run.phases[run.phase[step]].outer === "query" ? `query tile ${tile}` : `key tile ${key}`;
  return run.phases.length > 1 ? `kernel ${run.phase[step] + 1} of ${run.phases.length}, ${name}: ${where}` : where;
}

const finishing = (model) => [...ALGORITHMS].sort((a, b) => model.runs[a].time - model.runs[b].time);

function raceSentence(model, seconds) {
  const order = finishing(model), [winner] = order, { runs } = model;
  const slowest = runs[order[2]];
  if (seconds <= 0) return "Three algorithms, one head, the same tiles, one clock of modelled time. Which is done first?";
  if (seconds >= slowest.time) {
    const gain = slowest.time / runs[winner].time;
    return `${capital(TITLES[winner])} finished first, after ${duration(runs[winner].time)}: ${times(gain)} times as fast as ` +
      `${TITLES[order[2]]}, which took ${duration(slowest.time)}. Both are modelled.`;
  }
  const ended = order.filter((name) => runs[name].time <= seconds), going = order.filter((name) => runs[name].time > seconds);
  const share = (name) => `${TITLES[name]} is ${Math.floor((seconds / runs[name].time) * 100)}% through`;
  if (!ended.length) return `After ${duration(seconds)} of modelled time ${going.map(share).join(", ")}.`;
  return `${capital(ended.map((name) => `${TITLES[name]} was done after ${duration(runs[name].time)}`).join(", "))}; ${going.map(share).join(", ")}.`;
}

/** One lane of the race: its grid, its clock, its bytes. */
class RacePanel {
  constructor(name) {
    this.name = name;
  }

  layout({ model, u, dpr, theme }, box) {
    const run = model.runs[this.name], room = { x: box.x, y: box.y + 42 * u, w: box.w, h: box.h - 118 * u };
    this.grid = new GridLayout(model, room, { left: 20 * u, right: 44 * u }, u, dpr);
    this.painter = new GridPainter(model, run, this.grid, theme, u);
  }

  signature({ model, seconds }) {
    const run = model.runs[this.name], step = run.stepAt(seconds);
    return step >= run.steps ? "done" : `${step} ${duration(seconds)}`;
  }

  paint(pen, box, { model, seconds }) {
    const { u, theme } = pen, run = model.runs[this.name], step = run.stepAt(seconds), done = step >= run.steps;
    const place = finishing(model).indexOf(this.name), right = box.x + box.w, won = done && place === 0;
    const color = won ? theme.good : theme.ink, y = box.y + 18 * u, grid = this.grid;
    pen.text(capital(TITLES[this.name]), box.x, y, { size: 17, weight: 700, color });
    pen.text(duration(Math.min(seconds, run.time)), right, y, { size: 21, weight: 700, mono: true, align: "right", color });
    const state = done ? `${["first", "second", "third"][place]}, done` : doing(run, step);
    pen.text(state, box.x, y + 18 * u, { size: 12.5, color: won ? theme.good : theme.muted, weight: done ? 600 : 400, room: box.w - 104 * u });
    pen.text("modelled time", right, y + 18 * u, { size: 12.5, color: theme.muted, align: "right" });
    for (const [name, column] of [["Q", grid.q], ["O", grid.o]]) {
      pen.text(name, column.x + column.w / 2, grid.y0 - 8 * u, { size: 13, weight: 700, color: theme[name], align: "center" });
    }
    this.painter.paint(pen, step);
    trafficBar(pen, { x: box.x, y: grid.y0 + grid.h + 12 * u, w: box.w }, run, step, model.mostTraffic, true, "HBM, one head, counted");
  }
}

/** All three on one scale of modelled time, kernel by kernel. */
class ClockPanel {
  signature({ seconds }) {
    return seconds;
  }

  paint(pen, box, { model, seconds }) {
    const { u, theme } = pen, name = 150 * u, number = 90 * u;
    const track = { x: box.x + name, w: box.w - name - number }, scale = track.w / model.longest;
    const fastest = model.runs[finishing(model)[0]].time, pitch = Math.min(44 * u, (box.h - 44 * u) / 3);
    pen.rule(box.x, box.y, box.w);
    pen.text("Modelled time on one scale", box.x, box.y + 24 * u, { size: 15, weight: 600 });
    const scaled = model.scaled ? `${drawnNote(model)} · ` : "";
    pen.text(`${scaled}time of the whole launch, ${plural(model.asked.heads, "head")} at once, on one ${model.chip.name}`,
      box.x + box.w, box.y + 24 * u, { size: 12.5, color: model.scaled ? theme.K : theme.muted, align: "right" });
    ALGORITHMS.forEach((algorithm, n) => {
      const run = model.runs[algorithm], y = box.y + 44 * u + n * pitch, h = 14 * u, done = seconds >= run.time;
      const color = done && run.time === fastest ? theme.good : theme.statistics, elapsed = Math.min(seconds, run.time);
      pen.text(capital(TITLES[algorithm]), box.x, y + h - 2 * u, { size: 13.5, weight: done ? 700 : 400 });
      pen.box(track.x, y, track.w, h, theme.panel, 3);
      pen.box(track.x, y, Math.max(2, run.time * scale), h, theme.cell, 3);
      pen.box(track.x, y, elapsed * scale, h, color, 3);
      for (const end of run.phaseEnds.slice(0, -1)) {
        pen.ctx.fillStyle = theme.ground;
        pen.ctx.fillRect(track.x + end * scale - u, y, 2 * u, h);
      }
      pen.text(duration(run.time), box.x + box.w, y + h - 2 * u, { size: 13.5, mono: true, align: "right", weight: done ? 700 : 400, color: done ? theme.ink : theme.muted });
    });
  }
}
