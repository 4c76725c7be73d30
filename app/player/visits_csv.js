// All tile visits with their numbers as they are, not as they are shown: a file.

import { csvFile } from "../canvas/csv.js";
import { NONE } from "./run.js";

/** What is known of the middle sampled row of a visit's query tile: after it, or of gradients within it. */
const KNOWN = {
  whole: () => ({}),
  online(model, row, key) {
    const { m, l, alpha } = key === NONE ? {} : model.after(row, key); // none where parts are merged
    return { row: model.rows[row], m, l, α: alpha };
  },
  gradients(model, row, key) {
    const { weight, gradient } = key === NONE ? {} : model.rowInTile(row, key);
    return { row: model.rows[row], P: weight, dS: gradient };
  },
};

export function visitsCsv({ model, run }) {
  const tile = (n) => (n === NONE ? "all" : n);
  const visits = run.visitStart.map((start, n) => {
    const last = (run.visitStart[n + 1] ?? run.steps) - 1,
      [query, key] = [run.query[start], run.key[start]];
    return {
      visit: n + 1,
      ...(run.phases.length > 1 && { kernel: run.phases[run.phase[start]].name }),
      "query tile": tile(query),
      "key tile": tile(key),
      ...KNOWN[run.rows](model, model.rowOf(query), key),
      "read from L2 (bytes)": run.readAt(last),
      "written to L2 (bytes)": run.writtenAt(last),
      "of both across HBM, modelled (bytes)": run.readAt(last, "crossing") + run.writtenAt(last, "crossing"),
      "modelled time (s)": run.timeAt(last),
    };
  });
  const rows = visits.map((each) => Object.values(each).map((value) => (Number.isNaN(value) ? "" : value)));
  return csvFile([Object.keys(visits[0]), ...rows]);
}
