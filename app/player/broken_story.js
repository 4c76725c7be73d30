// What comes of it when a line of the kernel is left out, in words.

import { capital, percent, times } from "../canvas/format.js";
import { tilesAdded } from "./row_state.js";
import { NONE } from "./run.js";

export const WRONG = 1e-3; // of the largest number of O: what rounding makes of it at most

const off = (wrong) =>
  wrong === Infinity
    ? "not a number any more"
    : `off by ${wrong > 1 ? `${times(wrong)} times` : `${percent(wrong)} of`} its largest number`;

/** How far O is off at a step; nothing where nothing is left out, or nothing has been summed yet. */
export function brokenSentence(model, run, step, flaw) {
  if (!flaw || step < 0) return "";
  const left = capital(model.flaws[flaw]),
    { first, stop } = model.arrays;
  if (step >= run.steps) {
    const all = Array.from({ length: model.queryBlocks }, (_, n) => model.wrongSoFar(flaw, run, step, n)),
      most = Math.max(...all);
    const bad = all.filter((wrong) => wrong > WRONG).length;
    return bad
      ? `${left}, ${bad} of ${all.length} tiles of O are wrong; the worst is ${off(most)}.`
      : `${left}, O is right all the same: these numbers do not need it.`;
  }
  const i = run.query[step];
  if (i === NONE) return "";
  const { done } = tilesAdded(run, step, i, first[i], stop[i] - 1);
  if (done < first[i] || done >= stop[i]) return "";
  const wrong = model.wrongSoFar(flaw, run, step, i),
    name = `O of query tile ${i}`;
  return wrong > WRONG
    ? `${left}, ${name} is ${off(wrong)} after key tile ${done}.`
    : `${left}, ${name} is still right after key tile ${done}.`;
}
