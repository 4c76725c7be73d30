// What the chip holds at a step, and how much of it that takes.

import { clamp, inKib, subscript } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { NONE } from "./run.js";

const SUM = "sum so far";

/** What each operation makes of the tiles, while it is under way (`now`) and after. */
const MAKES = {
  scores: (now) => ({ S: now ? "being computed" : "scores" }),
  maximum: () => ({ S: "rows' maximum" }),
  rescale: () => ({ S: "becomes P" }),
  softmax: () => ({ S: "becomes P" }),
  accumulate: (_, { S }) => ({ ...(S && { S: "P, times V" }), O: "P V is added" }),
  row_terms: () => ({ delta: "summed" }),
  weights: () => ({ S: "becomes P" }),
  weight_gradient: (now) => ({ dP: now ? "being computed" : "here" }),
  score_gradient: () => ({ S: "P", dP: "becomes dS" }),
  value_gradient: (now) => ({ S: "P, times dO", dV: now ? "Pᵀ dO is added" : SUM }),
  key_gradient: (now) => ({ dP: "dS, times Q", dK: now ? "dSᵀ Q is added" : SUM }),
  query_gradient: (now) => ({ dP: "dS, times K", dQ: now ? "dS K is added" : SUM }),
};

/** The tiles on the chip at a step: tensor to a few words about what it is doing there. */
export function onChip(run, step) {
  const tiles = {};
  if (!run.has(step)) return tiles;
  const start = run.outerStart[run.outerOf[step]],
    [visit, phase] = [run.visit[step], run.phase[step]],
    { gathers, carries } = run.phases[phase];
  if (run.rows === "gradients") {
    // nothing leaves before its block ends
    for (let s = start; s <= step; s++) {
      const around = phase > 0 && run.visit[s] < 0,
        stays = around && visit >= 0 ? "stays in place" : "here";
      if ((phase === 0 || around || run.visit[s] === visit) && (s === step || run.operation(s) !== "store"))
        advance(tiles, run, s, s === step, stays);
    }
    for (const name of [[], ["dK", "dV"], ["dQ"]][phase]) tiles[name] ??= SUM;
    return tiles;
  }
  let s = start;
  for (; s <= step && run.visit[s] < 0 && run.operation(s) === "load"; s++)
    tiles[run.tensor(s)] = s === step ? "arriving" : "stays in place";
  if (gathers && (visit < 0 || carries || run.visit[start] !== visit)) tiles.O = SUM;
  if (carries) tiles.statistics = "every row";
  for (s = visit < 0 ? s : run.visitStart[visit]; s <= step; s++)
    if (visit >= 0 || run.visit[s] < 0) advance(tiles, run, s, s === step, "here");
  return tiles;
}

/** What one step does to the tiles on the chip; `loaded` is what a tile does after it came. */
function advance(tiles, run, step, now, loaded) {
  const [operation, tensor] = [run.operation(step), run.tensor(step)],
    gone = run.rows === "gradients" ? tensor : ({ lse: "statistics", P: "S" }[tensor] ?? tensor);
  if (operation === "load") tiles[tensor] = now ? "arriving" : loaded;
  else if (operation in MAKES) Object.assign(tiles, MAKES[operation](now, tiles));
  else if (now) tiles[gone] = "leaving";
  else delete tiles[gone];
}

const total = (values) => values.reduce((a, b) => a + b, 0);

export class ChipPanel {
  paint(pen, box, { model, run, step }) {
    const { u } = pen,
      tiles = onChip(run, step),
      parts = run
        .phaseAt(step)
        .parts.map(([label, tensor, bytes, inRegisters]) => ({ label, tensor, bytes, inRegisters })),
      shared = parts.filter(({ inRegisters }) => !inRegisters),
      held = total(shared.map(({ tensor, bytes }) => (tiles[tensor] ? bytes : 0))),
      whole = total(shared.map(({ bytes }) => bytes)),
      gap = parts.length > 7 ? 3 * u : 5 * u,
      least = Math.min(20 * u, (box.h - 54 * u) / parts.length - gap), // a tile with its name
      room = box.h - 54 * u - (least + gap) * parts.length, // below a heading
      largest = Math.max(...parts.map(({ bytes }) => bytes)),
      weights = parts.map(({ bytes }) => Math.sqrt(bytes / largest)),
      unit = clamp(room / total(weights), 0, 36 * u);
    this.heading(pen, box, model.chip, held, whole);
    let y = box.y + 50 * u;
    parts.forEach((part, n) => {
      const h = least + unit * weights[n];
      this.tile(pen, { x: box.x, y, w: box.w, h }, part, this.name(part, run, step), tiles[part.tensor]);
      y += h + gap;
    });
  }

  heading(pen, box, chip, held, whole) {
    const { u, theme } = pen,
      color = theme.muted,
      [y, bar] = [box.y + 16 * u, box.y + 27 * u],
      amount = `${inKib(held).replace(" KiB", "")} of ${inKib(chip.capacity)}`,
      width = pen.right(amount, box.x + box.w, y, { size: 11.5, mono: true, color }),
      whose = box.w < 275 * u ? "One SM" : `One of ${chip.sms} SMs`,
      part = (bytes) => box.w * Math.min(1, bytes / chip.capacity);
    pen.text(`${whose}, modelled`, box.x, y, { size: 12.5, weight: 600, room: box.w - width - 4 * u });
    pen.box(box.x, bar, box.w, 9 * u, theme.cell, 4);
    pen.box(box.x, bar, part(whole), 9 * u, mix(color, theme.cell, 0.4), 4);
    pen.box(box.x, bar, part(held), 9 * u, color, 4);
  }

  name({ label, tensor }, run, step) {
    if (!run.has(step) || (label !== tensor && tensor !== "delta")) return label;
    const [i, j] = [run.query[step], run.key[step]],
      at = { Q: i, O: i, K: j, V: j, dO: i, dQ: i, dK: j, dV: j, lse: i, delta: i }[tensor];
    if (at !== undefined) return label + (at === NONE ? "" : subscript(at));
    return label + (i === NONE || j === NONE ? "" : `${subscript(i)},${subscript(j)}`);
  }

  tile(pen, { x, y, w, h }, part, name, words) {
    const { u, theme } = pen,
      color = theme[part.tensor],
      base = y + h / 2 + 5 * u,
      look = { mono: true, color: words ? theme.ink : theme.muted };
    if (words) pen.box(x, y, w, h, mix(color, theme.ground, theme.name === "dark" ? 0.24 : 0.2), 4);
    else pen.frame(x + 0.5, y + 0.5, w - 1, h - 1, theme.line, 1, 4);
    pen.box(x, y, 4 * u, h, words ? color : theme.line, 2);
    const label = pen.text(name, x + 14 * u, base, { size: Math.min(15, h / u), weight: 700, ...look }), // smaller in a low tile
      size = pen.right(inKib(part.bytes), x + w - 9 * u, base, { size: 12.5, ...look }),
      from = x + 14 * u + Math.max(label + 10 * u, 52 * u),
      room = x + w - 17 * u - size - from;
    if (room > 30 * u)
      pen.note([words || "free", ...(part.inRegisters ? ["registers"] : [])], from, base, { room });
  }
}
