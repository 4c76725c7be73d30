// The columns of the table of tile visits: what stands in each, how the table shows it, and its unit in a file.

import { csvFile } from "../canvas/csv.js";
import { decimal, duration, factor, grouped, percent, sum, traffic } from "../canvas/format.js";
import { NONE } from "./run.js";

export function visitColumns(run) {
  const start = (visit) => run.visitStart[visit];
  const end = (visit) => (visit + 1 < run.visits ? run.visitStart[visit + 1] : run.steps) - 1;
  const tile = (n) => (n === NONE ? "all" : n);
  const places = [
    { title: "visit", number: true, of: (_, visit) => visit + 1, show: grouped },
    ...(run.phases.length > 1
      ? [{ title: "kernel", of: (_, visit) => run.phases[run.phase[start(visit)]].name }]
      : []),
    { title: "query tile", number: true, of: (_, visit) => tile(run.query[start(visit)]) },
    { title: "key tile", number: true, of: (_, visit) => tile(run.key[start(visit)]) },
  ];
  const amount = (title, unit, show, at) => ({
    ...{ title, unit, show, number: true },
    of: (_, visit) => at(end(visit)),
  });
  const bytes = [
    amount("read from L2", "bytes", traffic, (step) => run.readAt(step)),
    amount("written to L2", "bytes", traffic, (step) => run.writtenAt(step)),
    amount(
      "of both across HBM, modelled",
      "bytes",
      traffic,
      (step) => run.readAt(step, "crossing") + run.writtenAt(step, "crossing"),
    ),
    amount("modelled time", "s", duration, (step) => run.timeAt(step)),
  ];
  const own = { whole: () => [], gradients: gradientColumns, online: statisticColumns }[run.rows];
  return [...places, ...own(run, start), ...bytes].map((column) => ({ show: String, ...column }));
}

/** m, l and alpha of the middle sampled row of the visit's query tile, after the visit. */
function statisticColumns(run, start) {
  const row = (model, visit) => model.rowOf(run.query[start(visit)], 0.5);
  const after = (model, visit) => model.after(row(model, visit), run.key[start(visit)]);
  return [
    { title: "row", number: true, of: (model, visit) => model.rows[row(model, visit)] },
    { title: "m", number: true, of: (model, visit) => after(model, visit).m, show: decimal },
    { title: "l", number: true, of: (model, visit) => after(model, visit).l, show: sum },
    { title: "α", number: true, of: (model, visit) => after(model, visit).alpha, show: factor },
  ];
}

/** The sums of P and dS in the visited tile, of the middle sampled row of its query tile. */
function gradientColumns(run, start) {
  const row = (model, visit) => model.rowOf(run.query[start(visit)], 0.5);
  const sums = (model, visit) => {
    const j = run.key[start(visit)];
    return j === NONE ? null : model.rowInTile(row(model, visit), j);
  };
  return [
    { title: "row", number: true, of: (model, visit) => model.rows[row(model, visit)] },
    {
      title: "P",
      number: true,
      of: (model, visit) => sums(model, visit)?.weight ?? NaN,
      show: (x) => (Number.isNaN(x) ? "–" : percent(x)),
    },
    {
      title: "dS",
      number: true,
      of: (model, visit) => sums(model, visit)?.gradient ?? NaN,
      show: (x) => decimal(x, 3),
    },
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
