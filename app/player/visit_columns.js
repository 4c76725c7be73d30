// The columns of the table of tile visits: what stands in each, how the table shows it, and its unit in a file.

import { csvFile } from "../canvas/csv.js";
import { decimal, duration, factor, grouped, percent, sum, traffic } from "../canvas/format.js";
import { NONE } from "./run.js";

/** A column of numbers: its title, what it has `of(model, visit)`, how that is shown, and its unit. */
const numbers = (title, of, show = String, unit = "") => ({ title, of, show, unit, number: true });

export function visitColumns(run) {
  const start = (visit) => run.visitStart[visit],
    end = (visit) => (visit + 1 < run.visits ? run.visitStart[visit + 1] : run.steps) - 1,
    tile = (n) => (n === NONE ? "all" : n),
    kernel = (_, visit) => run.phases[run.phase[start(visit)]].name;
  const amount = (title, unit, show, at) => numbers(title, (_, visit) => at(end(visit)), show, unit);
  const crossing = (step) => run.readAt(step, "crossing") + run.writtenAt(step, "crossing");
  const own = { whole: () => [], gradients: gradientColumns, online: statisticColumns }[run.rows];
  return [
    numbers("visit", (_, visit) => visit + 1, grouped),
    ...(run.phases.length > 1 ? [{ title: "kernel", of: kernel, show: String }] : []),
    numbers("query tile", (_, visit) => tile(run.query[start(visit)])),
    numbers("key tile", (_, visit) => tile(run.key[start(visit)])),
    ...own(run, start),
    amount("read from L2", "bytes", traffic, (step) => run.readAt(step)),
    amount("written to L2", "bytes", traffic, (step) => run.writtenAt(step)),
    amount("of both across HBM, modelled", "bytes", traffic, crossing),
    amount("modelled time", "s", duration, (step) => run.timeAt(step)),
  ];
}

/** m, l and alpha of the middle sampled row of the visit's query tile, after the visit. */
function statisticColumns(run, start) {
  const row = (model, visit) => model.rowOf(run.query[start(visit)], 0.5);
  const after = (model, visit) => model.after(row(model, visit), run.key[start(visit)]);
  return [
    numbers("row", (model, visit) => model.rows[row(model, visit)]),
    numbers("m", (model, visit) => after(model, visit).m, decimal),
    numbers("l", (model, visit) => after(model, visit).l, sum),
    numbers("α", (model, visit) => after(model, visit).alpha, factor),
  ];
}

/** The sums of P and dS in the visited tile, of the middle sampled row of its query tile. */
function gradientColumns(run, start) {
  const row = (model, visit) => model.rowOf(run.query[start(visit)], 0.5);
  const sums = (model, visit) => {
    const j = run.key[start(visit)];
    return j === NONE ? { weight: NaN, gradient: NaN } : model.rowInTile(row(model, visit), j);
  };
  const share = (x) => (Number.isNaN(x) ? "–" : percent(x));
  return [
    numbers("row", (model, visit) => model.rows[row(model, visit)]),
    numbers("P", (model, visit) => sums(model, visit).weight, share),
    numbers(
      "dS",
      (model, visit) => sums(model, visit).gradient,
      (x) => decimal(x, 3),
    ),
  ];
}

/** All visits with their numbers as they are, not as they are shown. */
export function visitsCsv({ model, run }) {
  const columns = visitColumns(run),
    head = columns.map(({ title, unit }) => (unit ? `${title} (${unit})` : title)),
    number = (x) => (Number.isNaN(x) ? "" : x);
  const visits = Array.from({ length: run.visits }, (_, n) => columns.map(({ of }) => number(of(model, n))));
  return csvFile([head, ...visits]);
}
