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
  if (gathers && (visit < 0 || carries || run.visit[start] !== visit)) tiles.O = SUM;
  if (carries) tiles.statistics = "every row";
  for (s = visit < 0 ? s : run.visitStart[visit]; s <= step; s++)
    if (visit >= 0 || run.visit[s] < 0) advance(tiles, run, s, s === step, "here");
  return tiles;
}

/** The same at a step of the backward pass, in which nothing leaves before its block ends. */
function onChipBackward(run, step) {
  const tiles = {},
    phase = run.phase[step],
    visit = run.visit[step],
    visiting = phase > 0 && visit >= 0;
  for (let s = run.outerStart[run.outerOf[step]]; s <= step; s++) {
    const mine = phase === 0 || run.visit[s] === visit,
      around = phase > 0 && run.visit[s] < 0,
      now = s === step;
    if ((mine || around) && (now || run.operation(s) !== "store"))
      advance(tiles, run, s, now, around && visiting ? "stays in place" : "here");
  }
  if (phase > 0) for (const name of phase === 1 ? ["dK", "dV"] : ["dQ"]) tiles[name] ??= SUM;
  return tiles;
}

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

/** What one step does to the tiles on the chip; `loaded` is what a tile does after it came. */
function advance(tiles, run, step, now, loaded) {
  const operation = run.operation(step),
    tensor = run.tensor(step);
  if (operation === "load") tiles[tensor] = now ? "arriving" : loaded;
  else if (operation in MAKES) Object.assign(tiles, MAKES[operation](now, tiles));
  else {
    const gone = run.rows === "gradients" ? tensor : ({ lse: "statistics", P: "S" }[tensor] ?? tensor);
    if (now) tiles[gone] = "leaving";
    else delete tiles[gone];
  }
}
