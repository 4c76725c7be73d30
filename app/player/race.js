// Three algorithms on one clock of modelled time.

/** What an algorithm is doing, short. */
function doing(run, step) {
  if (step < 0) return "at the start";
  if (step >= run.steps) return "done";
  const { name } = run.phases[run.phase[step]], tile = run.query[step], key = run.key[step];
  const where = run.phases[run.phase[step]].outer === "query" ? `query tile ${tile}` : `key tile ${key}`;
  return run.phases.length > 1 ? `kernel ${run.phase[step] + 1} of ${run.phases.length}, ${name}: ${where}` : where;
}

/** "standard and FlashAttention-1 do not fit." of those that cannot run on the GPU, or nothing. */
function outOfRace(model) {
  const names = model.algorithms.filter((name) => model.misfits[name]).map((name) => TITLES[name]);
  if (!names.length) return "";
  return ` ${capital(names.join(" and "))} ${names.length > 1 ? "do" : "does"} not fit.`;
}

function raceSentence(model, seconds) {
  const { runs, finishing: order } = model, out = outOfRace(model), took = (name) => duration(runs[name].time);
  if (!order.length) return `None of the three fits the ${model.chip.name}, so nothing races. What each needs stands in its lane.`;
  const [winner] = order, slowest = order.at(-1);
  if (seconds <= 0) {
    return order.length === 1 ? `${capital(TITLES[winner])} runs alone on a clock of modelled time.${out}`
      : `${capital(plural(order.length, "algorithm"))}, one head, the same tiles, one clock of modelled time. Which is done first?${out}`;
  }
  if (seconds >= runs[slowest].time) {
    if (order.length === 1) return `${capital(TITLES[winner])} took ${took(winner)}, modelled.${out}`;
    const gain = runs[slowest].time / runs[winner].time;
    return `${capital(TITLES[winner])} finished first, after ${took(winner)}: ${times(gain)} times as fast as ` +
      `${TITLES[slowest]}, which took ${took(slowest)}. Both are modelled.${out}`;
  }
  const ended = order.filter((name) => runs[name].time <= seconds), going = order.filter((name) => runs[name].time > seconds);
  const share = (name) => `${TITLES[name]} is ${Math.floor((seconds / runs[name].time) * 100)}% through`;
  if (!ended.length) return `After ${duration(seconds)} of modelled time ${going.map(share).join(", ")}.${out}`;
  return `${capital(ended.map((name) => `${TITLES[name]} was done after ${took(name)}`).join(", "))}; ${going.map(share).join(", ")}.${out}`;
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
    const { u, theme } = pen, run = model.runs[this.name], misfit = model.misfits[this.name];
    const step = misfit ? -1 : run.stepAt(seconds), done = step >= run.steps;
    const place = model.finishing.indexOf(this.name), right = box.x + box.w, won = done && place === 0;
    const color = misfit ? theme.muted : won ? theme.good : theme.ink, y = box.y + 18 * u, grid = this.grid;
    pen.text(capital(TITLES[this.name]), box.x, y, { size: 17, weight: 700, color });
    const elapsed = misfit ? "–" : duration(Math.min(seconds, run.time));
    pen.text(elapsed, right, y, { size: 21, weight: 700, mono: true, align: "right", color });
    const state = misfit ? "cannot start" : done ? `${["first", "second", "third"][place]}, done` : doing(run, step);
    pen.text(state, box.x, y + 18 * u, { size: 12.5, color: won ? theme.good : theme.muted, weight: done ? 600 : 400, room: box.w - 104 * u });
    pen.text("modelled time", right, y + 18 * u, { size: 12.5, color: theme.muted, align: "right" });
    for (const [name, column] of [["Q", grid.q], ["O", grid.o]]) {
      pen.text(name, column.x + column.w / 2, grid.y0 - 8 * u, { size: 13, weight: 700, color: theme[name], align: "center" });
    }
    this.painter.paint(pen, step);
    if (misfit) this.sign(pen, misfit);
    trafficBar(pen, { x: box.x, y: grid.y0 + grid.h + 12 * u, w: box.w }, run, step, model.mostTraffic, true, "HBM, one head, counted");
  }

  /** Over a grid on which nothing will happen: why. */
  sign(pen, misfit) {
    const { u, theme } = pen, { x0, y0, w, h } = this.grid;
    const [verdict, ...reasons] = misfit.replace(/\.$/, "").split(/: |, /);
    const tall = (40 + 20 * reasons.length) * u, y = y0 + (h - tall) / 2, wide = Math.min(w, 250 * u), x = x0 + w / 2;
    pen.box(x - wide / 2, y, wide, tall, theme.panel, 6);
    pen.frame(x - wide / 2, y, wide, tall, theme.bad, u, 6);
    pen.text(verdict, x, y + 25 * u, { size: 16, weight: 700, color: theme.bad, align: "center" });
    reasons.forEach((reason, n) => pen.text(reason, x, y + (46 + 20 * n) * u, { size: 13, align: "center", room: wide - 16 * u }));
  }
}

/** All three on one scale of modelled time, kernel by kernel. */
class ClockPanel {
  signature({ seconds }) {
    return seconds;
  }

  /** What the clock counts, and on what. */
  about({ chip, asked, scaled, drawn }) {
    const heads = asked.heads === 1 ? "1 head" : `all ${grouped(asked.heads)} heads (batch × heads) at once`;
    const note = scaled ? `${drawnNote({ drawn, asked })} · ` : "";
    return `${note}one forward pass, ${heads}, on one ${chip.name}; shown are the steps of one`;
  }

  paint(pen, box, { model, seconds }) {
    const { u, theme } = pen, name = 150 * u, number = 90 * u;
    const track = { x: box.x + name, w: box.w - name - number }, scale = track.w / model.longest;
    const pitch = Math.min(44 * u, (box.h - 44 * u) / 3);
    pen.rule(box.x, box.y, box.w);
    pen.text("Modelled time on one scale", box.x, box.y + 24 * u, { size: 15, weight: 600 });
    pen.text(this.about(model), box.x + box.w, box.y + 24 * u,
      { size: 12.5, color: model.scaled ? theme.K : theme.muted, align: "right", room: box.w - 230 * u });
    model.algorithms.forEach((algorithm, n) => {
      const run = model.runs[algorithm], y = box.y + 44 * u + n * pitch, h = 14 * u, misfit = model.misfits[algorithm];
      const done = !misfit && seconds >= run.time, elapsed = Math.min(seconds, run.time);
      const color = done && algorithm === model.finishing[0] ? theme.good : theme.statistics;
      pen.text(capital(TITLES[algorithm]), box.x, y + h - 2 * u, { size: 13.5, weight: done ? 700 : 400 });
      pen.box(track.x, y, track.w, h, theme.panel, 3);
      if (misfit) return pen.text(misfit, track.x + 8 * u, y + h - 2.5 * u, { size: 12, color: theme.bad, room: track.w });
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
