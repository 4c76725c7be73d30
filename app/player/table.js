// The columns of the table of tile visits.

function visitColumns(run) {
  const start = (visit) => run.visitStart[visit];
  const end = (visit) => (visit + 1 < run.visits ? run.visitStart[visit + 1] : run.steps) - 1;
  const tile = (n) => (n === NONE ? "all" : n);
  const places = [
    { title: "visit", number: true, value: (_, visit) => grouped(visit + 1) },
    ...(run.phases.length > 1 ? [{ title: "kernel", value: (_, visit) => run.phases[run.phase[start(visit)]].name }] : []),
    { title: "query tile", number: true, value: (_, visit) => tile(run.query[start(visit)]) },
    { title: "key tile", number: true, value: (_, visit) => tile(run.key[start(visit)]) },
  ];
  const bytes = [
    { title: "HBM read", number: true, value: (_, visit) => traffic(run.readAt(end(visit))) },
    { title: "HBM written", number: true, value: (_, visit) => traffic(run.writtenAt(end(visit))) },
    { title: "modelled time", number: true, value: (_, visit) => duration(run.timeAt(end(visit))) },
  ];
  if (run.name === "standard") return [...places, ...bytes];
  if (run.name === "backward") return [...places, ...gradientColumns(run, start), ...bytes];
  return [...places, ...statisticColumns(run, start), ...bytes];
}

/** m, l and alpha of the middle sampled row of the visit's query tile, after the visit. */
function statisticColumns(run, start) {
  const row = (model, visit) => model.rowOf(run.query[start(visit)], 0.5);
  const after = (model, visit) => model.after(row(model, visit), run.key[start(visit)]);
  return [
    { title: "row", number: true, value: (model, visit) => model.rows[row(model, visit)] },
    { title: "m", number: true, value: (model, visit) => decimal(after(model, visit).m) },
    { title: "l", number: true, value: (model, visit) => sum(after(model, visit).l) },
    { title: "α", number: true, value: (model, visit) => factor(after(model, visit).alpha) },
  ];
}
