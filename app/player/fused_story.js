// Fused attention in words: an online softmax, with query tiles or with key tiles in the outer loop.

import { capital, decimal, factor, plural, sum, toldApart, wholePercent } from "../canvas/format.js";
import { rowState } from "./row_state.js";
import { NONE } from "./run.js";
import { closingWords, sizeWords } from "./size_words.js";

const BY_KEYS = [
  ["for each key tile j:"],
  ["  load K[j], V[j]", "load K V"],
  ["  for each query tile i that sees j:"],
  ["    load Q[i]", "load Q"],
  ["    load O[i], m[i], l[i]", "load"],
  ["    S = Q Kᵀ · scale", "scores"],
  ["    m′ = max(m, rowmax S)", "maximum"],
  ["    α = exp(m − m′);  P = exp(S − m′)", "rescale"],
  ["    l′ = α l + ΣP;  O = (α l O + P V)/l′", "accumulate"],
  ["    store O[i], m[i], l[i]", "store"],
];

/** What S is, with a cap and with slopes. */
function scores({ cap, slopes }) {
  const products = cap ? `${cap} tanh(Q Kᵀ · scale / ${cap})` : "Q Kᵀ · scale";
  return `S = ${products}${slopes ? " − slope · distance" : ""}`;
}

/** The lines where query tiles are outside: which key tiles come, who copies them, and what runs at the same time. */
function byQueries({ reverse, specialised, overlapped, terms = {} }) {
  const begins = terms.sink === undefined ? "m = −∞;  l = 0" : "m = the sink;  l = 1";
  const ahead = specialised ? "   by TMA, ahead" : "";
  return [
    ["for each query tile i:"],
    [`  load Q[i];  ${begins};  O = 0`, "load Q"],
    [reverse ? "  for key tiles j, from the last:" : "  for each key tile j that i sees:"],
    [`    load K[j]${ahead}`, "load K"],
    [terms.latent ? "    V[j] = the first numbers of K[j]" : `    load V[j]${ahead}`, "load V"],
    [`    ${scores(terms)}${overlapped ? "   beside P V" : ""}`, "scores"],
    ["    m′ = max(m, rowmax S)", "maximum"],
    ["    α = exp(m − m′);  P = exp(S − m′)", "rescale"],
    ["    l = α l + rowsum P;  O = α O + P V", "accumulate"],
    ["  store O = O / l", "store O"],
    ["  store lse = m + log l", "store"],
  ];
}

/** Of split keys: what a part's program does, and what the second kernel makes of all parts. */
const byParts = (run) => [
  [
    ["for each query tile i, each part p:"],
    ["  load Q[i];  m = −∞;  l = 0;  O = 0", "load Q"],
    ["  for each key tile j of part p:"],
    ...byQueries({ terms: run.terms }).slice(3, 9),
    ["  store part p: O / l, lse = m + log l", "store"],
  ],
  [
    ["kernel 2, for each row of Q:"],
    ["  load O, lse of all parts;  m = max lse", "load"],
    ["  O = Σ e^(lse − m) O / Σ e^(lse − m)", "combine"],
    ["  store O, lse", "store"],
  ],
];

const code = (run) => (run.parts?.length ? byParts(run) : [run.keysOutside ? BY_KEYS : byQueries(run)]);

function opening(model, run) {
  const { queryBlocks, keyBlocks } = model;
  if (run.parts?.length)
    return (
      `${sizeWords(model, "Each KV head, with the heads of Q that share it,")}. The ${plural(keyBlocks, "key tile")} are split into ` +
      `${plural(run.parts.length, "part")}, each with a thread block of its own, and a second kernel merges what they found.`
    );
  const [stays, pass] = run.keysOutside ? ["key", "query"] : ["query", "key"],
    last = run.reverse && !run.keysOutside ? ", the last first" : "",
    beside = run.overlapped ? " The page of this algorithm shows what runs at the same time." : "";
  return `${sizeWords(model)}, in ${queryBlocks} × ${keyBlocks} tiles. Each ${stays} tile stays on the chip while the ${pass} tiles pass by${last}.${beside}`;
}

const STEPS = {
  load: loadSentence,
  store: storeSentence,
  combine: () =>
    "Every part's O is multiplied by exp(lse − m), the sum is divided by the sum of these weights, and the result is exact.",
};
const step = (told) => (STEPS[told.operation] ?? tileSentence)(told);

/** Where a load comes from, by the model. */
function origin(run, step) {
  const share = run.crossingOf(step);
  return share > 0.99 ? "HBM" : share < 0.01 ? "L2" : "L2 or HBM";
}

function loadSentence({ model, run, step, i, j, tensor, size }) {
  const keys = `${plural(j === NONE ? 0 : model.keyRows(j), "row")}, ${size}`,
    part = run.partAt(step);
  if (run.phase[step])
    return tensor === "partial O"
      ? `The second kernel reads O of every part back, ${size}, for all rows that share this KV head.`
      : `It reads the parts' lse: ${size}. The largest of them is m, to which all parts are scaled.`;
  if (part >= 0 && tensor === "Q") {
    const { first, stop } = run.parts[part],
      own = stop > first ? `key tiles ${first} to ${stop - 1}` : "no key tile, as none is left";
    return (
      `Part ${part} has ${own}. Its thread block loads ${size} of Q and begins with m, l and O of its own. ` +
      `Here the parts come one after another; on the GPU they run at the same time.`
    );
  }
  if (run.keysOutside)
    return {
      K: `Key tile ${j} is loaded onto the chip: ${keys}. It stays while every query tile that sees it passes by.`,
      V: `Value tile ${j} is loaded with it: ${keys}.`,
      Q: `Query tile ${i} passes by: ${size} of Q are read again for key tile ${j}.`,
      O: `Query tile ${i} goes on from what it accumulated before, so its unfinished O is read back: ${size}.`,
      statistics: `m and l of the ${plural(model.queryRows(i), "row")} of query tile ${i} are read back with O: ${size}.`,
    }[tensor];
  return {
    Q: `Query tile ${i} is loaded onto the chip: ${plural(model.queryRows(i), "row")}, ${size}. It stays while the key tiles that it sees pass by.`,
    K: `Key tile ${j} is loaded from ${origin(run, step)} for query tile ${i}: ${keys}.`,
    V: `Value tile ${j} is loaded with its key tile: ${keys}.`,
  }[tensor];
}

function storeSentence({ model, run, step, index, own, i, j, tensor, size }) {
  const tile = `query tile ${i}`;
  if (tensor === "partial O")
    return `Part ${run.partAt(step)} has seen its keys. Its O, divided by its own l, is written to HBM in float32: ${size}.`;
  if (tensor === "partial lse")
    return `With it goes its lse, m + log l of its own keys, by which the parts are weighed later: ${size}.`;
  if (run.phase[step] && tensor === "O") return `The merged O is written once for each row: ${size}.`;
  if (run.rewrites)
    return tensor === "O"
      ? `O of ${tile} is not finished, but it must make room: ${size} are written back, to be read again for the next key tile.`
      : `m and l of ${tile} are written back too: ${size}. Key tile ${j} stays for the next query tile.`;
  if (tensor === "O" && model.arrays.stop[i] === model.arrays.first[i])
    return `Query tile ${i} sees no key at all, so its O is 0: ${size} are written to HBM.`;
  if (tensor === "O")
    return `Query tile ${i} has seen all its keys, so O is divided by l once and written to HBM once: ${size}.`;
  if (tensor !== "lse") return undefined;
  const { lse } = rowState(model, run, run.steps, index),
    known = own ? `is ${decimal(lse)} for row ${model.rows[index]}` : "is written too, one number per row";
  return `Its log-sum-exp, m + log l, ${known}. These ${size} let the backward pass recompute P, so P need not be stored.`;
}

/** What a step does in a tile, whatever the row: all there is to say where the row that is followed is in another. */
const OF_ALL_ROWS = {
  scores: (model, i, j) =>
    `S = Q Kᵀ · scale gives ${model.queryRows(i)} × ${model.keyRows(j)} scores. ` +
    (model.partial(i, j) ? "The mask hides part of them." : "They never leave the chip."),
  maximum: () => "Each of its rows compares its maximum m with the largest of its scores in this tile.",
  rescale: () =>
    "In each row whose maximum rose, everything accumulated so far is multiplied by its own α; in the others α = 1.",
  accumulate: () => "The sum l and the output O of each of its rows take in this tile.",
};

/** The same of one row, before and after the tile. */
const OF_ROW = {
  maximum(row, before, next) {
    if (before.m === -Infinity)
      return `The largest score of ${row} is ${decimal(next.m)}, which becomes its first maximum m.`;
    if (next.m > before.m)
      return `${capital(row)} finds a larger score, so its maximum m rises from ${toldApart(before.m, next.m).join(" to ")}.`;
    return `No score of ${row} exceeds its maximum so far, so m stays at ${decimal(before.m)}.`;
  },
  rescale(row, before, next) {
    if (before.m === -Infinity)
      return `${capital(row)} starts here with maximum ${decimal(next.m)}; nothing was accumulated before, so α = 0.`;
    if (next.m <= before.m)
      return `The maximum of ${row} stays at ${decimal(next.m)}, so α = 1 and nothing accumulated so far changes.`;
    const alpha = factor(next.alpha),
      is = alpha.startsWith("<") ? alpha.replace("<", "< ") : `= ${alpha}`;
    return (
      `The maximum of ${row} rises from ${toldApart(before.m, next.m).join(" to ")}, so everything ` +
      `accumulated so far is multiplied by α ${is} before this tile is added.`
    );
  },
  accumulate(row, before, next) {
    const share = next.l > 0 ? Math.max(0, 1 - (next.alpha * before.l) / next.l) : 0;
    return (
      `For ${row}, l becomes α · ${sum(before.l)} + this tile's sum = ${sum(next.l)}. ` +
      `This tile now makes up ${wholePercent(share)} of what O has accumulated.`
    );
  },
};

/** A tile visit on the chip: scores, maximum, rescale, accumulate. */
function tileSentence({ model, run, step, index, own, i, j, operation }) {
  if (!OF_ALL_ROWS[operation]) return undefined;
  const row = `row ${model.rows[index]}`,
    who = run.parts?.length ? `Part ${run.partAt(step)}` : `Query tile ${i}`,
    meets = `${who} meets key tile ${j}.`;
  if (operation === "scores" || !own) return `${meets} ${OF_ALL_ROWS[operation](model, i, j)}`;
  const { before, next } = rowState(model, run, step, index);
  if (next.m === -Infinity)
    return `${meets} The mask hides every key so far from ${row}, so m stays −∞ and nothing is added.`;
  return `${meets} ${OF_ROW[operation](row, before, next)}`;
}

export const FUSED_STORY = { code, opening, closing: closingWords, step };
