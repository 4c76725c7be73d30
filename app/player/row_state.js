// One row of Q on its way through the key tiles: m, l, alpha and lse at any step, as numbers and as traces.

import { clamp } from "../canvas/format.js";
import { NONE } from "./run.js";

const UNKNOWN = { m: NaN, l: NaN, alpha: NaN, lse: NaN };
/** Values between two visits. */
const resting = (values, about) => ({ ...values, before: values, next: values, now: -1, ...about });

/** What a sampled row knows at a step: its values, the last key tile added, and before and after this visit. */
export function rowState(model, run, step, index) {
  const block = model.blockOf(index),
    first = model.arrays.first[block],
    last = model.arrays.stop[block] - 1;
  if (run.rows === "whole") return wholeRow(model, run, step, index, block, first, last);
  if (run.splits > 1 && step >= run.phase.indexOf(1))
    return resting({ ...UNKNOWN, lse: model.arrays.whole[index] }, { done: last, first, last }); // merged: no maximum and no sum of one program any more
  const { done, now } = tilesAdded(run, step, block, first, last);
  const before = model.after(index, done);
  const state = { ...before, before, next: before, done, now, first, last };
  if (now < 0) return state;
  const next = model.after(index, now);
  state.next = next;
  if (run.reached(step, "maximum")) state.m = next.m;
  if (run.reached(step, "rescale")) Object.assign(state, { alpha: next.alpha, l: next.alpha * before.l });
  if (run.reached(step, "accumulate")) Object.assign(state, { l: next.l, lse: next.lse, done: now });
  return state;
}

/** The last key tile wholly added to a query block, and the one at work on it (-1: none). */
export function tilesAdded(run, step, block, first, last) {
  const none = run.reverse ? last + 1 : first - 1,
    all = run.reverse ? first : last,
    resting = (done) => ({ done, now: -1 });
  if (!run.has(step)) return resting(step < 0 ? none : all);
  const [i, j] = [run.query[step], run.key[step]],
    store = run.operation(step) === "store",
    part = run.parts?.[run.partAt(step)];
  if (part) {
    // each begins with nothing
    if (i !== block) return resting(none);
    if (j === NONE) return resting(store && part.stop > part.first ? part.stop - 1 : none);
    return { done: j === part.first ? none : j - 1, now: j };
  }
  if (i === block && j !== NONE) return { done: run.reverse ? j + 1 : j - 1, now: j };
  if (run.keysOutside) return resting(clamp(i !== NONE && i > block ? j : j - 1, first - 1, last));
  return resting(i > block || (i === block && store) ? all : none);
}

/** Unfused attention knows nothing of a row until the softmax reads it whole. */
function wholeRow(model, run, step, index, block, first, last) {
  const phase = step < 0 ? 0 : step >= run.steps ? run.phases.length : run.phase[step],
    softmax = run.phases.findIndex(({ wholeRows }) => wholeRows),
    i = phase === softmax ? run.query[step] : -1,
    known = phase > softmax || i > block || (i === block && run.operation(step) !== "load"),
    values = known ? { ...model.after(index, last), alpha: NaN } : UNKNOWN;
  return resting(values, { done: known ? last : first - 1, first, last });
}
