// The backward pass in words: its lines of code, and one sentence for each step.

import { capital, decimal, percent, times, traffic } from "../canvas/format.js";
import { sizeWords } from "./size_words.js";

const KERNELS = [
  [
    ["kernel 1, for each query tile i:"],
    ["  load O[i], dO[i], lse[i]", "load"],
    ["  δ = rowsum(dO ∘ O)", "row_terms"],
    ["  store δ[i], lse[i] · log₂e", "store"],
  ],
  [
    ["kernel 2, for each key tile j:"],
    ["  load K[j], V[j];  dK = 0;  dV = 0", "load K V"],
    ["  for each query tile i that sees j:"],
    ["    load Q[i], dO[i], lse[i], δ[i]", "load"],
    ["    S = Q Kᵀ · scale;  dP = dO Vᵀ", "scores", "weight_gradient"],
    ["    P = exp(S − lse)", "weights"],
    ["    dV = dV + Pᵀ dO", "value_gradient"],
    ["    dS = P ∘ (dP − δ)", "score_gradient"],
    ["    dK = dK + dSᵀ Q", "key_gradient"],
    ["  store dK[j] · scale, dV[j]", "store"],
  ],
  [
    ["kernel 3, for each query tile i:"],
    ["  load Q[i], dO[i], lse[i], δ[i];  dQ = 0", "load Q dO lse delta"],
    ["  for each key tile j that i sees:"],
    ["    load K[j], V[j]", "load"],
    ["    S = Q Kᵀ · scale;  dP = dO Vᵀ", "scores", "weight_gradient"],
    ["    P = exp(S − lse);  dS = P ∘ (dP − δ)", "weights", "score_gradient"],
    ["    dQ = dQ + dS K", "query_gradient"],
    ["  store dQ[i] · scale", "store"],
  ],
];

const opening = (model) =>
  `${sizeWords(model)}. Its backward pass takes dO and returns dQ, dK and dV. ` +
  "The forward pass did not store P, so two kernels recompute it, tile by tile.";

function closing({ against, drawn: { block_q, block_kv } }, run) {
  const part = against.total / run.total,
    less = `${times(1 / part)} times less than blocks of ${block_q} × ${block_kv} request`,
    than = part >= 1.05 ? `${times(part)} times as much` : part > 0.95 ? "about as much" : less;
  return (
    `Done. This head's tiles requested ${traffic(run.total)}, of which ${traffic(run.crossing)} had to cross HBM (modelled). ` +
    `${capital(against.title)} attention, which stores P, must move ${traffic(against.total)}, ${than}.`
  );
}

const stays = (gradient, others) =>
  `It stays, and its ${gradient} accumulates on the chip while the ${others} pass by.`;
const once = (size) => `written once, as no other program adds to it: ${size}.`;

/** What is said of each operation, where it moves tensors by tensor; undefined where it is none of the pass. */
const TOLD = {
  load({ model, run, step, i, j, tensor, size }) {
    const shared = model.group > 1 ? ` of all ${model.group} heads that share it` : "",
      queries = `query tiles${shared}`;
    const own = {
      Q: `query tile ${i} is loaded onto the chip: ${size} of Q. ${stays("dQ", "key tiles")}`,
      dO: `dO of query tile ${i} is loaded too: ${size}.`,
      lse: `lse of its rows is loaded, so that their P can be recomputed: ${size}.`,
      delta: `δ of its rows is loaded, which kernel 1 wrote: ${size}.`,
      K: `key tile ${j} passes by, for the second time in this pass: ${size}.`,
      V: `value tile ${j} is loaded with its key tile: ${size}.`,
    };
    const kernels = [
      {
        O: `O of query tile ${i} is read back from HBM: ${size}.`,
        dO: `dO, its gradient from the layer above, is read with it: ${size}.`,
        lse: `lse of its rows is read, all that the forward pass kept of the softmax: ${size}.`,
      },
      {
        ...own,
        Q: `query tile ${i} passes by: ${size} of Q.`,
        K: `key tile ${j} is loaded onto the chip: ${size}. ${stays("dK", queries)}`,
        V: `value tile ${j} is loaded with it: ${size}. ${stays("dV", queries)}`,
      },
      own,
    ];
    return kernels[run.phase[step]][tensor];
  },
  store: ({ model, i, j, tensor, size }) =>
    ({
      delta: `δ of query tile ${i} is written for both kernels to come: ${size}.`,
      lse: `lse is written in units of log₂, as the exponentials of both kernels need it: ${size}.`,
      dK: `dK of key tile ${j} is complete. It is multiplied by scale and ${once(size)}`,
      dV: `dV of key tile ${j} is complete and ${once(size)}${model.group > 1 ? ` It holds the sum over ${model.group} heads.` : ""}`,
      dQ: `dQ of query tile ${i} is complete. It is multiplied by scale and ${once(size)}`,
    })[tensor],
  row_terms: ({ model, index, own, i }) =>
    own
      ? `δ = rowsum(dO ∘ O) is ${decimal(model.arrays.delta[index])} for row ${model.rows[index]}. This one number stands for its whole row of P ∘ dP.`
      : `δ = rowsum(dO ∘ O) is one number for each row of query tile ${i}, which stands for its whole row of P ∘ dP.`,
  scores: ({ model, run, step, i, j }) =>
    `query tile ${i} meets key tile ${j}. S = Q Kᵀ · scale is recomputed${run.phase[step] === 1 ? "" : ", for the second time"}: ` +
    `${model.queryRows(i)} × ${model.keyRows(j)} scores.${model.partial(i, j) ? " The mask hides part of them." : ""}`,
  weights({ model, index, own, j }) {
    const { weight } = model.rowInTile(index, j),
      has = own ? ` Row ${model.rows[index]} has ${percent(weight)} of its weight in this tile.` : "";
    return `P = exp(S − lse) needs no running maximum, because lse is known.${has}`;
  },
  weight_gradient: ({ i, j }) =>
    `dP = dO Vᵀ says how the loss changes with each weight P of tile (${i}, ${j}).`,
  score_gradient({ model, index, own, j }) {
    const here = decimal(model.rowInTile(index, j).gradient, 3),
      row = `Row ${model.rows[index]}'s gradients in this tile sum to ${here}; over the whole row they`;
    return `dS = P ∘ (dP − δ). ${own ? row : "Over a whole row these gradients"} cancel to 0, because softmax weights always sum to 1.`;
  },
  value_gradient: ({ i, j }) =>
    `dV of key tile ${j} accumulates Pᵀ dO of query tile ${i}: what each value contributed to these rows of O.`,
  key_gradient: ({ i, j }) => `dK of key tile ${j} accumulates dSᵀ Q of query tile ${i}.`,
  query_gradient: ({ i, j }) => `dQ of query tile ${i} accumulates dS times key tile ${j}.`,
};

function step(told) {
  const words = TOLD[told.operation]?.(told);
  return words && `Kernel ${told.run.phase[told.step] + 1} of 3: ${words}`;
}

export const BACKWARD_STORY = { code: () => KERNELS, oneByOne: true, opening, closing, step };
