// Beside the grid: what the chip holds, what HBM has given and taken, and the line of the algorithm.

/** The tiles on the chip at a step: tensor to a few words about what it is doing there. */
function onChip(run, step) {
  const tiles = {};
  if (step < 0 || step >= run.steps) return tiles;
  if (run.name === "backward") return onChipBackward(run, step);
  const start = run.outerStart[run.outerOf[step]], visit = run.visit[step];
  const accumulates = run.keepsOutput || (run.name === "standard" && run.phase[step] === 2);
  let s = start;
  for (; s <= step && run.visit[s] < 0 && run.operation[s] === LOAD; s++) {
    tiles[TENSORS[run.tensor[s]]] = s === step ? "arriving" : "stays in place";
  }
  if (accumulates && (visit < 0 || run.keepsOutput || run.visit[start] !== visit)) tiles.O = "sum so far";
  if (run.keepsOutput) tiles.statistics = "every row";
  for (s = visit < 0 ? s : run.visitStart[visit]; s <= step; s++) {
    if (visit < 0 && run.visit[s] >= 0) continue;
    advance(tiles, run.operation[s], TENSORS[run.tensor[s]], s === step);
  }
  return tiles;
}

/** What one step does to the tiles on the chip. */
function advance(tiles, operation, tensor, now) {
  const gone = { lse: "statistics", P: "S" }[tensor] || tensor;
  if (operation === LOAD) tiles[tensor] = now ? "arriving" : "here";
  else if (operation === SCORES) tiles.S = now ? "being computed" : "scores";
  else if (operation === MAXIMUM) tiles.S = "rows' maximum";
  else if (operation === RESCALE) tiles.S = "becomes P";
  else if (operation === SOFTMAX) tiles.S = "becomes P";
  else if (operation === ACCUMULATE) {
    if (tiles.S) tiles.S = "P, times V";
    tiles.O = "P V is added";
  } else if (now) tiles[gone] = "leaving";
  else delete tiles[gone];
}

class ChipPanel {
  signature({ run, step }) {
    return `${run.name} ${step}`;
  }

  paint(pen, box, { model, run, step }) {
    const { u, theme } = pen, tiles = onChip(run, step);
    const phase = step < 0 ? 0 : step >= run.steps ? run.phases.length - 1 : run.phase[step];
    const parts = run.phases[phase].parts.map(([label, tensor, bytes]) => ({ label, tensor: TENSORS[tensor], bytes }));
    const held = parts.reduce((total, part) => total + (tiles[part.tensor] ? part.bytes : 0), 0);
    const whole = parts.reduce((total, part) => total + part.bytes, 0);
    this.heading(pen, box, model.chip, held, whole);
    const room = box.h - 102 * u, gap = 6 * u; // a heading above, two lines below
    const weights = parts.map((part) => 1 + 1.1 * Math.sqrt(part.bytes / Math.max(...parts.map((p) => p.bytes))));
    const unit = Math.min(27 * u, (room - gap * parts.length) / weights.reduce((a, b) => a + b, 0));
    let y = box.y + 50 * u;
    parts.forEach((part, n) => {
      const h = unit * weights[n];
      this.tile(pen, { x: box.x, y, w: box.w, h }, part, this.name(part, run, step), tiles[part.tensor]);
      y += h + gap;
    });
    this.moral(pen, box, y, model, run, whole <= model.chip.capacity);
  }

  /** What becomes of S and P, the matrices that the algorithms differ in. */
  moral(pen, box, y, { drawn, chip }, run, fits) {
    const size = traffic(drawn.seq_q * drawn.seq_kv * drawn.itemsize), style = { size: 12.5, color: fits ? pen.theme.muted : pen.theme.bad, room: box.w };
    const lines = !fits ? ["Does not fit: smaller blocks or", `head dimension, or not the ${chip.name}.`] : run.name === "standard" ? [`S and P live in HBM, ${size} each,`, "and pass through here tile by tile."]
      : run.name === "backward" ? ["P and dS are computed again here:", `HBM never sees their ${size} each.`]
      : run.name === "flash3" ? ["S, O, m and l are in registers:", `HBM sees no S or P, ${size} each.`]
      : ["S and P never leave the chip:", `HBM never sees their ${size} each.`];
    if (y + 44 * pen.u > box.y + box.h) return;
    lines.forEach((line, n) => pen.text(line, box.x, y + (20 + 18 * n) * pen.u, style));
  }

  heading(pen, box, chip, held, whole) {
    const { u, theme } = pen, fits = whole <= chip.capacity;
    const y = box.y + 16 * u;
    const width = pen.text("On chip, modelled", box.x, y, { size: 13.5, weight: 600 });
    const amount = `${kib(fits ? held : whole).replace(" KB", "")} of ${kib(chip.capacity)}`;
    pen.text(amount, box.x + box.w, y, { size: 11.5, mono: true, align: "right", color: fits ? theme.muted : theme.bad, room: box.w - width - 4 * u });
    const bar = { x: box.x, y: box.y + 27 * u, w: box.w, h: 9 * u };
    const part = (bytes) => bar.w * Math.min(1, bytes / chip.capacity);
    pen.box(bar.x, bar.y, bar.w, bar.h, theme.cell, 4);
    pen.box(bar.x, bar.y, part(whole), bar.h, mix(fits ? theme.muted : theme.bad, theme.cell, 0.4), 4);
    pen.box(bar.x, bar.y, part(held), bar.h, fits ? theme.muted : theme.bad, 4);
  }

  name(part, run, step) {
    if (step < 0 || step >= run.steps) return part.label;
    const i = run.query[step], j = run.key[step];
    if (part.label !== part.tensor && part.tensor !== "delta") return part.label;
    const at = { Q: i, O: i, K: j, V: j, dO: i, dQ: i, dK: j, dV: j, lse: i, delta: i }[part.tensor];
    if (at !== undefined) return part.label + (at === NONE ? "" : subscript(at));
    return part.label + (i === NONE || j === NONE ? "" : `${subscript(i)},${subscript(j)}`);
  }

  tile(pen, { x, y, w, h }, part, name, words) {
    const { u, theme } = pen, color = theme[part.tensor], dark = theme.name === "dark";
    if (words) pen.box(x, y, w, h, mix(color, theme.ground, dark ? 0.24 : 0.2), 4);
    else pen.frame(x + 0.5, y + 0.5, w - 1, h - 1, theme.line, 1, 4);
    pen.box(x, y, 4 * u, h, words ? color : theme.line, 2);
    const base = y + h / 2 + 5 * u;
    const label = pen.text(name, x + 14 * u, base, { size: 15, weight: 700, mono: true, color: words ? theme.ink : theme.muted });
    const size = pen.text(kib(part.bytes), x + w - 9 * u, base, { size: 12.5, mono: true, align: "right", color: words ? theme.ink : theme.muted });
    const from = x + 14 * u + Math.max(label + 10 * u, 52 * u);
    const room = x + w - 9 * u - size - 8 * u - from;
    if (room > 30 * u) pen.text(words || "free", from, base, { size: 12.5, color: theme.muted, room });
  }
}

class TrafficPanel {
  signature({ run, step }) {
    return `${run.name} ${step}`;
  }

  heading(pen, box, model) {
    const { u, theme } = pen, heading = model.scaled ? "HBM so far, one head as drawn" : "HBM so far, one head";
    pen.text(heading, box.x, box.y + 16 * u, { size: 15, weight: 600 });
    pen.text("counted", box.x + box.w, box.y + 16 * u, { size: 12.5, color: theme.good, align: "right" });
  }

  paint(pen, box, { model, run, step }) {
    const { u, theme } = pen, right = box.x + box.w;
    this.heading(pen, box, model);
    const part = run.time ? run.timeAt(step) / run.time : 0;
    const pitch = (box.h - 52 * u) / 3;
    model.algorithms.forEach((name, n) => {
      const other = model.runs[name];
      const at = name === run.name ? step : step < 0 ? -1 : step >= run.steps ? other.steps : other.stepAt(part * other.time);
      const area = { x: box.x, y: box.y + 28 * u + n * pitch, w: box.w };
      trafficBar(pen, area, other, at, model.mostTraffic, name === run.name);
    });
    const y = box.y + box.h - 8 * u;
    const { standard, flash2 } = model.runs;
    const [subject, words] = run === standard ? ["FlashAttention-2, whole run", compared(flash2, run)]
      : ["whole run", compared(run, standard, "standard")];
    pen.text(words, right, y, { size: 13.5, weight: 700, align: "right" });
    pen.text(subject, box.x, y, { size: 12.5, color: theme.muted });
  }
}

/** One algorithm's bytes: solid so far, pale to its total; written is striped as well as orange. */
function trafficBar(pen, { x, y, w }, run, step, most, strong, title = TITLES[run.name]) {
  const { u, theme } = pen, right = x + w;
  const read = run.readAt(step), written = run.writtenAt(step);
  pen.text(title, x, y + 14 * u, { size: 13.5, weight: strong ? 700 : 400 });
  pen.text(traffic(read + written), right, y + 14 * u, { size: 15, weight: strong ? 700 : 400, mono: true, align: "right" });
  const h = 11 * u, top = y + 20 * u, scale = w / most;
  pen.box(x, top, w, h, theme.panel, 3);
  pen.box(x, top, Math.max(2, run.total * scale), h, theme.cell, 3);
  pen.box(x, top, read * scale, h, theme.Q, 3);
  const from = x + read * scale + (read ? 1 : 0);
  pen.box(from, top, written * scale, h, theme.O, 3);
  stripes(pen, from, top, written * scale, h);
  const foot = top + h + 13 * u, small = { size: 11.5, mono: true };
  const first = pen.text(`read ${traffic(read)}`, x, foot, { ...small, color: theme.Q });
  pen.text(`written ${traffic(written)}`, x + Math.max(first + 12 * u, 110 * u), foot, { ...small, color: theme.O });
  pen.text(`of ${traffic(run.total)}`, right, foot, { ...small, color: theme.muted, align: "right" });
}

function stripes(pen, x, y, w, h) {
  if (w < 3) return;
  const { ctx } = pen;
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
  ctx.strokeStyle = mix(pen.theme.ground, pen.theme.O, 0.35);
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let at = x - h; at < x + w; at += 5 * pen.u) {
    ctx.moveTo(at, y + h);
    ctx.lineTo(at + h, y);
  }
  ctx.stroke();
  ctx.restore();
}

class CodePanel {
  signature({ run, step }) {
    return codeShown(run, step).join();
  }

  paint(pen, box, { run, step }) {
    const { u, theme } = pen, [lines, lit] = codeShown(run, step);
    pen.rule(box.x, box.y, box.w);
    const pitch = Math.min(18 * u, (box.h - 10 * u) / lines.length), size = Math.min(12.6, (pitch / u) * 0.74);
    lines.forEach((line, n) => {
      const y = box.y + 8 * u + n * pitch;
      if (n === lit) pen.box(box.x, y, box.w, pitch, mix(theme.S, theme.ground, theme.name === "dark" ? 0.3 : 0.24), 3);
      pen.text(line, box.x + 8 * u, y + pitch * 0.72, { size, mono: true, color: n === lit ? theme.ink : theme.muted, weight: n === lit ? 600 : 400, room: box.w - 12 * u });
    });
  }
}
