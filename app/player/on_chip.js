// The tiles on the chip at a step, and what happens to each.

/** The tiles on the chip at a step: tensor to a few words about what it is doing there. */
export function onChip(run, step) {
  const tiles = {};
  if (!run.has(step)) return tiles;
  if (run.rows === "gradients") return onChipBackward(run, step);
  const start = run.outerStart[run.outerOf[step]],
    visit = run.visit[step];
  const { gathers, carries } = run.phases[run.phase[step]];
  let s = start;
  for (; s <= step && run.visit[s] < 0 && run.operation(s) === "load"; s++) {
    tiles[run.tensor(s)] = s === step ? "arriving" : "stays in place";
  }
  if (gathers && (visit < 0 || carries || run.visit[start] !== visit)) tiles.O = "sum so far";
  if (carries) tiles.statistics = "every row";
  for (s = visit < 0 ? s : run.visitStart[visit]; s <= step; s++) {
    if (visit < 0 && run.visit[s] >= 0) continue;
    advance(tiles, run.operation(s), run.tensor(s), s === step);
  }
  return tiles;
}

/** What one step does to the tiles on the chip. */
function advance(tiles, operation, tensor, now) {
  const gone = { lse: "statistics", P: "S" }[tensor] || tensor;
  if (operation === "load") tiles[tensor] = now ? "arriving" : "here";
  else if (operation === "scores") tiles.S = now ? "being computed" : "scores";
  else if (operation === "maximum") tiles.S = "rows' maximum";
  else if (operation === "rescale") tiles.S = "becomes P";
  else if (operation === "softmax") tiles.S = "becomes P";
  else if (operation === "accumulate") {
    if (tiles.S) tiles.S = "P, times V";
    tiles.O = "P V is added";
  } else if (now) tiles[gone] = "leaving";
  else delete tiles[gone];
}

/** The tiles on the chip at a step of the backward pass: tensor to a few words about what it is doing there. */
function onChipBackward(run, step) {
  const tiles = {},
    phase = run.phase[step],
    visit = run.visit[step],
    visiting = phase > 0 && visit >= 0;
  for (let s = run.outerStart[run.outerOf[step]]; s <= step; s++) {
    const mine = phase === 0 || run.visit[s] === visit,
      around = phase > 0 && run.visit[s] < 0;
    if (mine || around)
      advanceBackward(tiles, run.operation(s), run.tensor(s), s === step, around && visiting);
  }
  if (phase > 0) for (const name of phase === 1 ? ["dK", "dV"] : ["dQ"]) tiles[name] ??= "sum so far";
  return tiles;
}

function advanceBackward(tiles, operation, tensor, now, stays) {
  const computed = {
    row_terms: { delta: "summed" },
    scores: { S: now ? "being computed" : "scores" },
    weights: { S: "becomes P" },
    weight_gradient: { dP: now ? "being computed" : "here" },
    score_gradient: { S: "P", dP: "becomes dS" },
  };
  const added = {
    value_gradient: [
      ["S", "P, times dO"],
      ["dV", "Pᵀ dO is added"],
    ],
    key_gradient: [
      ["dP", "dS, times Q"],
      ["dK", "dSᵀ Q is added"],
    ],
    query_gradient: [
      ["dP", "dS, times K"],
      ["dQ", "dS K is added"],
    ],
  };
  if (operation === "load") tiles[tensor] = now ? "arriving" : stays ? "stays in place" : "here";
  else if (operation === "store") {
    if (now) tiles[tensor] = "leaving";
  } else if (operation in added) {
    const [[factor, times], [sum, words]] = added[operation];
    Object.assign(tiles, { [factor]: times, [sum]: now ? words : "sum so far" });
  } else Object.assign(tiles, computed[operation]);
}
