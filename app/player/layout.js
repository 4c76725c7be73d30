// Where the panels of the single player, of the race and of a narrow screen lie, and the first moment shown.

/** A step about a third through at which the followed row rescales, so that the first picture has something to say. */
function tellingStep(model, run, slot) {
  const from = Math.floor(run.steps * 0.37);
  if (run.name === "backward") return tellingGradient(model, run, slot, from);
  for (let s = from; s < run.steps; s++) {
    if (run.operation[s] !== RESCALE) continue;
    const { alpha } = model.after(model.rowOf(run.query[s], slot), run.key[s]);
    if (alpha > 0.05 && alpha < 0.9) return s;
  }
  return from;
}

/** A step at which the followed row has a good part of its weight in the tile, and so something to pass on. */
function tellingGradient(model, run, slot, from) {
  for (let s = from; s < run.steps; s++) {
    if (run.operation[s] !== SCORE_GRADIENT) continue;
    if (rowInTile(model, model.rowOf(run.query[s], slot), run.key[s]).weight > 0.08) return s;
  }
  return Math.max(from, run.operation.indexOf(SCORE_GRADIENT, from));
}

/** The panels that differ between a forward pass and a backward one. */
function panelsOf(model) {
  return model.algorithm === "backward" ? [BackwardGridPanel, BackwardTrafficPanel, BackwardRowPanel] : [GridPanel, TrafficPanel, RowPanel];
}

function singleLayout(w, h, u, model) {
  const [Grid, Traffic, Row] = panelsOf(model);
  const gap = 36 * u, below = 172 * u, top = h - below - 8 * u;
  const gridW = Math.min(0.43 * w, top - 72 * u + 88 * u), rest = w - gridW - 2 * gap;
  const chipW = clamp(0.42 * rest, 190 * u, 310 * u), sideW = rest - chipW;
  const chipX = gridW + gap, sideX = chipX + chipW + gap, trafficH = Math.min(244 * u, 0.55 * top);
  return [
    { panel: new Grid(), box: { x: 0, y: 0, w: gridW, h: top } },
    { panel: new ChipPanel(), box: { x: chipX, y: 0, w: chipW, h: top } },
    { panel: new Traffic(), box: { x: sideX, y: 0, w: sideW, h: trafficH } },
    { panel: new CodePanel(), box: { x: sideX, y: trafficH + 8 * u, w: sideW, h: top - trafficH - 14 * u } },
    { panel: new Row(), box: { x: 0, y: h - below, w, h: below } },
  ];
}

function narrowLayout(race) {
  if (race) return (w, h) => [{ panel: new ClockPanel(), box: { x: 0, y: 0, w, h } }];
  return (w, h, u, model) => {
    const [Grid, Traffic] = panelsOf(model);
    const below = 240 * u, top = Math.min(w + 60 * u, h - below - 10 * u);
    if (w > 1.2 * h) { // low rather than narrow: side by side
      return [
        { panel: new Grid(), box: { x: 0, y: 0, w: 0.54 * w, h } },
        { panel: new Traffic(), box: { x: 0.58 * w, y: 0, w: 0.42 * w, h: Math.min(h, 280 * u) } },
      ];
    }
    return [
      { panel: new Grid(), box: { x: 0, y: 0, w, h: top } },
      { panel: new Traffic(), box: { x: 0, y: top + 10 * u, w, h: below } },
    ];
  };
}

function raceLayout(w, h, u, model) {
  const gap = 44 * u, each = (w - 2 * gap) / 3, lanes = Math.min(h - 150 * u, each - 64 * u + 172 * u), clock = h - lanes;
  const boxes = model.algorithms.map((name, n) => ({ panel: new RacePanel(name), box: { x: n * (each + gap), y: 0, w: each, h: lanes } }));
  return [...boxes, { panel: new ClockPanel(), box: { x: 0, y: lanes, w, h: clock } }];
}
