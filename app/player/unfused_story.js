// Unfused attention in words: three kernels, with S and P in memory between them.

import { decimal, sum } from "../canvas/format.js";
import { rowState } from "./row_state.js";
import { closingWords, sizeWords } from "./size_words.js";

const KERNELS = [
  [
    ["kernel 1, for each tile (i, j):"],
    ["  load Q[i], K[j]", "load"],
    ["  S = Q Kᵀ · scale", "scores"],
    ["  store S[i, j]", "store"],
  ],
  [
    ["kernel 2, for each query tile i:"],
    ["  load S[i, :]", "load"],
    ["  P = exp(S − m) / l   over whole rows", "softmax"],
    ["  store P[i, :]", "store"],
  ],
  [
    ["kernel 3, for each query tile i, each j:"],
    ["  load P[i, j], V[j]", "load"],
    ["  O = O + P V", "accumulate"],
    ["  store O[i]   after the last j", "store"],
  ],
];

const opening = (model) =>
  `${sizeWords(model)}, in ${model.queryBlocks} × ${model.keyBlocks} tiles. ` +
  "Three kernels pass over every tile, and S and P go through HBM between them.";

const TOLD = {
  scores: ({ model, i, j }) =>
    `: query tile ${i} meets key tile ${j}. S = Q Kᵀ · scale gives ${model.queryRows(i)} × ${model.keyRows(j)} scores.` +
    (model.seen(i, j) ? "" : " The mask hides them all, but they are computed anyway."),
  softmax({ model, run, step, index, own, i }) {
    const { m, l } = rowState(model, run, step, index),
      row = `Row ${model.rows[index]} has maximum ${decimal(m)} and sum ${sum(l)}, so P = exp(S − m) / l.`,
      takes = ` takes the softmax of the whole rows of query tile ${i}`;
    return own ? `${takes}. ${row}` : `${takes}: P = exp(S − m) / l.`;
  },
  accumulate: ({ i, j }) => ` adds P times value tile ${j} to O of query tile ${i}.`,
  store: ({ tensor, i, j, size }) =>
    ({
      S: ` cannot keep tile (${i}, ${j}) of S, so it writes ${size} to HBM.`,
      P: ` writes the weights P of query tile ${i} to HBM, ${size}, and the next kernel reads them back.`,
      O: ` has completed O of query tile ${i} and writes it to HBM: ${size}.`,
    })[tensor],
  load: ({ tensor, i, j, size }) =>
    ({
      Q: ` loads query tile ${i} for tile (${i}, ${j}): ${size}.`,
      K: ` loads key tile ${j} for tile (${i}, ${j}): ${size}.`,
      S: ` reads the scores S of query tile ${i} back, ${size}, only to take their softmax.`,
      P: ` reads tile (${i}, ${j}) of P back: ${size}.`,
      V: ` loads value tile ${j}: ${size}.`,
    })[tensor],
};

function step(told) {
  const { run, step, operation } = told,
    words = TOLD[operation]?.(told);
  return words && `Kernel ${run.phase[step] + 1} of ${run.phases.length}${words}`;
}

export const UNFUSED_STORY = { code: () => KERNELS, opening, closing: closingWords, step };
