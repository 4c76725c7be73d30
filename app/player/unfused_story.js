// Unfused attention in words: three kernels, with S and P in memory between them.

import { decimal, sum } from "../canvas/format.js";
import { rowState } from "./rows.js";
import { closingWords, sizeWords } from "./words.js";

const CODE = [
  "kernel 1, for each tile (i, j):",
  "  load Q[i], K[j]",
  "  S = Q Kᵀ · scale",
  "  store S[i, j]",
  "kernel 2, for each query tile i:",
  "  load S[i, :]",
  "  P = exp(S − m) / l   over whole rows",
  "  store P[i, :]",
  "kernel 3, for each query tile i, each j:",
  "  load P[i, j], V[j]",
  "  O = O + P V",
  "  store O[i]   after the last j",
];
const LINES = [
  [0, 1, 2, 3],
  [4, 5, 6, 7],
  [8, 9, 10, 11],
]; // of each kernel: its loop, loads, arithmetic, store

function code(run, step) {
  if (!run.has(step)) return [CODE, -1];
  const [, loads, arithmetic, stores] = LINES[run.phase[step]];
  return [CODE, { load: loads, store: stores }[run.operation(step)] ?? arithmetic];
}

function opening({ drawn, queryBlocks, keyBlocks }) {
  return (
    `One head: ${sizeWords(drawn)} in ${queryBlocks} × ${keyBlocks} tiles. ` +
    "Three kernels pass over every tile, and S and P go through HBM between them."
  );
}

function stepSentence({ model, run, step, index, i, j, operation, tensor, size }) {
  const kernel = `Kernel ${run.phase[step] + 1} of ${run.phases.length}`;
  if (operation === "scores") {
    const hidden = model.seen(i, j) ? "" : " The mask hides it, yet it is computed.";
    return `${kernel}: query tile ${i} meets key tile ${j}. S = Q Kᵀ · scale, ${model.queryRows(i)} × ${model.keyRows(j)} scores.${hidden}`;
  }
  if (operation === "softmax") {
    const { m, l } = rowState(model, run, step, index);
    return (
      `${kernel}: softmax over the whole rows of query tile ${i}. Row ${model.rows[index]} has maximum ${decimal(m)} ` +
      `and sum ${sum(l)}: P = exp(S − m) / l.`
    );
  }
  if (operation === "accumulate") return `${kernel}: O of query tile ${i} gathers P times value tile ${j}.`;
  if (operation === "store") {
    return {
      S: `${kernel}: tile (${i}, ${j}) of S does not stay: ${size} are written to HBM.`,
      P: `${kernel}: the weights P of query tile ${i} go back to HBM, ${size}, to be read once more.`,
      O: `${kernel}: O of query tile ${i} is complete and written to HBM, ${size}.`,
    }[tensor];
  }
  return {
    Q: `${kernel}: query tile ${i} is loaded for tile (${i}, ${j}), ${size}.`,
    K: `${kernel}: key tile ${j} is loaded for tile (${i}, ${j}), ${size}.`,
    S: `${kernel}: the scores S of query tile ${i} come back from HBM, ${size}, only for their softmax.`,
    P: `${kernel}: tile (${i}, ${j}) of P comes back from HBM, ${size}.`,
    V: `${kernel}: value tile ${j} is loaded, ${size}.`,
  }[tensor];
}

function block(_, run, step) {
  const i = run.query[step];
  return [
    `Kernel 1 of 3 multiplies Q and K: every tile of S is computed, masked or not, and written to HBM. Now query tile ${i}.`,
    `Kernel 2 of 3 reads S back, takes the softmax of whole rows and writes P to HBM. Now query tile ${i}.`,
    `Kernel 3 of 3 reads P once more and multiplies it with V; O is written once. Now query tile ${i}.`,
  ][run.phase[step]];
}

export const UNFUSED_STORY = { code, opening, closing: closingWords, step: stepSentence, block };
