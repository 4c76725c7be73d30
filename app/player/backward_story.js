// The backward pass in words: its lines of code, and one sentence for each step.

import { capital, decimal, percent, times, traffic } from "../canvas/format.js";
import { NONE } from "./run.js";
import { sizeWords } from "./size_words.js";

const CODE = [
  "kernel 1, for each query tile i:",
  "  load O[i], dO[i], lse[i]",
  "  δ = rowsum(dO ∘ O)",
  "  store δ[i], lse[i] · log₂e",
  "kernel 2, for each key tile j:",
  "  load K[j], V[j];  dK = 0;  dV = 0",
  "  for each query tile i that sees j:",
  "    load Q[i], dO[i], lse[i], δ[i]",
  "    S = Q Kᵀ · scale;  dP = dO Vᵀ",
  "    P = exp(S − lse)",
  "    dV = dV + Pᵀ dO",
  "    dS = P ∘ (dP − δ)",
  "    dK = dK + dSᵀ Q",
  "  store dK[j] · scale, dV[j]",
  "kernel 3, for each query tile i:",
  "  load Q[i], dO[i], lse[i], δ[i];  dQ = 0",
  "  for each key tile j that i sees:",
  "    load K[j], V[j]",
  "    S = Q Kᵀ · scale;  dP = dO Vᵀ",
  "    P = exp(S − lse);  dS = P ∘ (dP − δ)",
  "    dQ = dQ + dS K",
  "  store dQ[i] · scale",
];

const KERNEL_LINES = [0, 4, 14, CODE.length]; // where each kernel's lines begin, and the end

// the line of each step of a tile, in kernel 2 and in kernel 3
const KEYS_AND_QUERIES = {
  scores: [8, 18],
  weight_gradient: [8, 18],
  weights: [9, 19],
  value_gradient: [10],
  score_gradient: [11, 19],
  key_gradient: [12],
  query_gradient: [null, 20],
};

/** The lines of the kernel at work, of the first before it starts and of the last after it ends. */
function code(run, step) {
  const kernel = step < 0 ? 0 : step >= run.steps ? 2 : run.phase[step],
    from = KERNEL_LINES[kernel];
  return [CODE.slice(from, KERNEL_LINES[kernel + 1]), run.has(step) ? lineOf(run, step) - from : -1];
}

/** The line of CODE that a step is. */
function lineOf(run, step) {
  const phase = run.phase[step],
    operation = run.operation(step),
    around = run.query[step] === NONE || run.key[step] === NONE;
  if (operation === "store") return [3, 13, 21][phase];
  if (operation === "load") return phase === 0 ? 1 : phase === 1 ? (around ? 5 : 7) : around ? 15 : 17;
  if (phase === 0) return 2;
  return KEYS_AND_QUERIES[operation]?.[phase - 1] ?? -1;
}

function opening(model) {
  return (
    `${sizeWords(model)}. Its backward pass takes dO and returns dQ, dK and dV. ` +
    "The forward pass did not store P, so two kernels recompute it, tile by tile."
  );
}

function closing(model, run) {
  const { against } = model,
    part = against.total / run.total,
    { block_q, block_kv } = model.drawn;
  const than =
    part >= 1.05
      ? `${times(part)} times as much`
      : part > 0.95
        ? "about as much"
        : `${times(1 / part)} times less than blocks of ${block_q} × ${block_kv} request`;
  return (
    `Done. This head's tiles requested ${traffic(run.total)}, of which ${traffic(run.crossing)} had to cross HBM (modelled). ` +
    `${capital(against.title)} attention, which stores P, must move ${traffic(against.total)}, ${than}.`
  );
}

/** One sentence about a step of the backward pass. */
function stepSentence({ model, run, step, index, own, i, j, operation, tensor, size }) {
  const kernel = `Kernel ${run.phase[step] + 1} of 3: `,
    byKeys = run.phase[step] === 1;
  switch (operation) {
    case "load":
      return kernel + backwardLoad({ model, phase: run.phase[step], i, j, tensor, size });
    case "store":
      return kernel + backwardStore({ model, i, j, tensor, size });
    default:
      return kernel + backwardTile({ model, byKeys, operation, index, own, i, j });
  }
}

function backwardLoad({ model, phase, i, j, tensor, size }) {
  const heads = model.group > 1 ? ` of all ${model.group} heads that share it` : "";
  if (phase === 0) {
    return {
      O: `O of query tile ${i} is read back from HBM: ${size}.`,
      dO: `dO, its gradient from the layer above, is read with it: ${size}.`,
      lse: `lse of its rows is read, all that the forward pass kept of the softmax: ${size}.`,
    }[tensor];
  }
  const stays = (gradient, others) =>
    `It stays, and its ${gradient} accumulates on the chip while the ${others} pass by.`;
  if (phase === 1 && i === NONE) {
    return {
      K: `key tile ${j} is loaded onto the chip: ${size}. ${stays("dK", `query tiles${heads}`)}`,
      V: `value tile ${j} is loaded with it: ${size}. ${stays("dV", `query tiles${heads}`)}`,
    }[tensor];
  }
  const rows = {
    Q: `query tile ${i} ${phase === 1 ? "passes by" : "is loaded onto the chip"}: ${size} of Q.${phase === 1 ? "" : ` ${stays("dQ", "key tiles")}`}`,
    dO: `dO of query tile ${i} is loaded too: ${size}.`,
    lse: `lse of its rows is loaded, so that their P can be recomputed: ${size}.`,
    delta: `δ of its rows is loaded, which kernel 1 wrote: ${size}.`,
    K: `key tile ${j} passes by, for the second time in this pass: ${size}.`,
    V: `value tile ${j} is loaded with its key tile: ${size}.`,
  };
  return rows[tensor];
}

function backwardStore({ model, i, j, tensor, size }) {
  const once = `written once, as no other program adds to it: ${size}.`;
  return {
    delta: `δ of query tile ${i} is written for both kernels to come: ${size}.`,
    lse: `lse is written in units of log₂, as the exponentials of both kernels need it: ${size}.`,
    dK: `dK of key tile ${j} is complete. It is multiplied by scale and ${once}`,
    dV: `dV of key tile ${j} is complete and ${once}${model.group > 1 ? ` It holds the sum over ${model.group} heads.` : ""}`,
    dQ: `dQ of query tile ${i} is complete. It is multiplied by scale and ${once}`,
  }[tensor];
}

/** A tile visit on the chip; `index` is the sampled row that is followed. */
function backwardTile({ model, byKeys, operation, index, own, i, j }) {
  const row = `row ${model.rows[index]}`,
    { weight, gradient } = model.rowInTile(index, j);
  const partial = model.partial(i, j) ? " The mask hides part of them." : "";
  const sums = {
    value_gradient: `dV of key tile ${j} accumulates Pᵀ dO of query tile ${i}: what each value contributed to these rows of O.`,
    key_gradient: `dK of key tile ${j} accumulates dSᵀ Q of query tile ${i}.`,
    query_gradient: `dQ of query tile ${i} accumulates dS times key tile ${j}.`,
  };
  switch (operation) {
    case "row_terms":
      if (!own)
        return `δ = rowsum(dO ∘ O) is one number for each row of query tile ${i}, which stands for its whole row of P ∘ dP.`;
      return `δ = rowsum(dO ∘ O) is ${decimal(model.arrays.delta[index])} for ${row}. This one number stands for its whole row of P ∘ dP.`;
    case "scores":
      return (
        `query tile ${i} meets key tile ${j}. S = Q Kᵀ · scale is recomputed${byKeys ? "" : ", for the second time"}: ` +
        `${model.queryRows(i)} × ${model.keyRows(j)} scores.${partial}`
      );
    case "weights":
      return `P = exp(S − lse) needs no running maximum, because lse is known.${own ? ` ${capital(row)} has ${percent(weight)} of its weight in this tile.` : ""}`;
    case "weight_gradient":
      return `dP = dO Vᵀ says how the loss changes with each weight P of tile (${i}, ${j}).`;
    case "score_gradient":
      return (
        (own
          ? `dS = P ∘ (dP − δ). ${capital(row)}'s gradients in this tile sum to ${decimal(gradient, 3)}; over the whole row they `
          : "dS = P ∘ (dP − δ). Over a whole row these gradients ") +
        "cancel to 0, because softmax weights always sum to 1."
      );
    default:
      return sums[operation];
  }
}

/** What a whole outer block does, for speeds at which single tiles cannot be read. */
function block(_, run, step, numbered) {
  const [query, key] = numbered
    ? [`query tile ${run.query[step]}`, `key tile ${run.key[step]}`]
    : ["each query tile", "each key tile"];
  return [
    `Kernel 1 of 3 computes δ = rowsum(dO ∘ O), one number per row${numbered ? `. It is at ${query}` : ""}.`,
    `Kernel 2 of 3 keeps ${key} on the chip while the query tiles that see it pass by; dK and dV accumulate there and are written once.`,
    `Kernel 3 of 3 keeps ${query} on the chip while its key tiles pass by again; dQ accumulates there and is written once.`,
  ][run.phase[step]];
}

export const BACKWARD_STORY = { code, opening, closing, step: stepSentence, block };
