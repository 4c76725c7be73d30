// One row of Q on its way through the key tiles: m, l, alpha and lse at any step, as numbers and as traces.

import { clamp } from "../canvas/format.js";
import { NONE } from "./run.js";

/** What a sampled row knows at a step: its values, the last key tile added, and before and after this visit. */
export function rowState(model, run, step, index) {
  const block = model.blockOf(index);
  const first = model.arrays.first[block],
    last = model.arrays.stop[block] - 1;
  if (run.rows === "whole") return wholeRow(model, run, step, index, block, first, last);
  if (run.splits > 1 && step >= run.phase.indexOf(1)) return merged(model, index, first, last);
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
    all = run.reverse ? first : last;
  if (step < 0) return { done: none, now: -1 };
  if (step >= run.steps) return { done: all, now: -1 };
  const i = run.query[step],
    j = run.key[step];
  const part = run.parts?.[run.partAt(step)];
  if (part) return tilesOfPart(part, i === block, j, run.operation(step), none);
  if (i === block && j !== NONE) return { done: run.reverse ? j + 1 : j - 1, now: j };
  if (run.keysOutside) {
    const passed = i !== NONE && i > block ? j : j - 1;
    return { done: clamp(passed, first - 1, last), now: -1 };
  }
  const ended = i > block || (i === block && run.operation(step) === "store");
  return { done: ended ? all : none, now: -1 };
}

/** The same where keys are split, and each part begins with nothing. */
function tilesOfPart({ first, stop }, own, j, operation, none) {
  if (!own) return { done: none, now: -1 };
  if (j !== NONE) return { done: j === first ? none : j - 1, now: j };
  return { done: operation === "store" && stop > first ? stop - 1 : none, now: -1 };
}

/** What is known of a row once its parts are merged: no maximum and no sum of one program any more. */
function merged(model, index, first, last) {
  const values = { m: NaN, l: NaN, alpha: NaN, lse: model.arrays.whole[index] };
  return { ...values, before: values, next: values, done: last, now: -1, first, last };
}

/** Unfused attention knows nothing of a row until the softmax reads it whole. */
function wholeRow(model, run, step, index, block, first, last) {
  const unknown = { m: NaN, l: NaN, alpha: NaN, lse: NaN };
  const phase = step < 0 ? 0 : step >= run.steps ? run.phases.length : run.phase[step];
  const softmax = run.phases.findIndex(({ wholeRows }) => wholeRows);
  const i = phase === softmax ? run.query[step] : -1;
  const begun = i === block && run.operation(step) !== "load";
  const known = phase > softmax || (phase === softmax && (i > block || begun));
  const values = known ? { ...model.after(index, last), alpha: NaN } : unknown;
  return { ...values, before: values, next: values, done: known ? last : first - 1, now: -1, first, last };
}
