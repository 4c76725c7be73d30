// Unfused attention in words: three kernels, with S and P in memory between them.

import { decimal, sum } from "../canvas/format.js";
import { rowState } from "./row_state.js";
import { closingWords, sizeWords } from "./size_words.js";

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

function opening(model) {
  const { queryBlocks, keyBlocks } = model;
  return (
    `${sizeWords(model)}, in ${queryBlocks} × ${keyBlocks} tiles. ` +
    "Three kernels pass over every tile, and S and P go through HBM between them."
  );
}

function stepSentence({ model, run, step, index, own, i, j, operation, tensor, size }) {
  const kernel = `Kernel ${run.phase[step] + 1} of ${run.phases.length}`;
  if (operation === "scores") {
    const hidden = model.seen(i, j) ? "" : " The mask hides them all, but they are computed anyway.";
    return `${kernel}: query tile ${i} meets key tile ${j}. S = Q Kᵀ · scale gives ${model.queryRows(i)} × ${model.keyRows(j)} scores.${hidden}`;
  }
  if (operation === "softmax") {
    const { m, l } = rowState(model, run, step, index);
    if (!own) return `${kernel} takes the softmax of the whole rows of query tile ${i}: P = exp(S − m) / l.`;
    return (
      `${kernel} takes the softmax of the whole rows of query tile ${i}. Row ${model.rows[index]} has maximum ${decimal(m)} ` +
      `and sum ${sum(l)}, so P = exp(S − m) / l.`
    );
  }
  if (operation === "accumulate") return `${kernel} adds P times value tile ${j} to O of query tile ${i}.`;
  if (operation === "store") {
    return {
      S: `${kernel} cannot keep tile (${i}, ${j}) of S, so it writes ${size} to HBM.`,
      P: `${kernel} writes the weights P of query tile ${i} to HBM, ${size}, and the next kernel reads them back.`,
      O: `${kernel} has completed O of query tile ${i} and writes it to HBM: ${size}.`,
    }[tensor];
  }
  return {
    Q: `${kernel} loads query tile ${i} for tile (${i}, ${j}): ${size}.`,
    K: `${kernel} loads key tile ${j} for tile (${i}, ${j}): ${size}.`,
    S: `${kernel} reads the scores S of query tile ${i} back, ${size}, only to take their softmax.`,
    P: `${kernel} reads tile (${i}, ${j}) of P back: ${size}.`,
    V: `${kernel} loads value tile ${j}: ${size}.`,
  }[tensor];
}

function block(_, run, step, numbered) {
  const where = numbered ? ` It is at query tile ${run.query[step]}.` : "";
  const words = [
    "Kernel 1 of 3 multiplies Q and K: every tile of S is computed, masked or not, and written to HBM.",
    "Kernel 2 of 3 reads S back, takes the softmax of whole rows and writes P to HBM.",
    "Kernel 3 of 3 reads P back and multiplies it by V; O is written once.",
  ][run.phase[step]];
  return words + where;
}

export const UNFUSED_STORY = { code, opening, closing: closingWords, step: stepSentence, block };
