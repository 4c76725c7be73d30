// The moment to begin with: what the opened link says, the share of the run that was noted in this tab, or one that tells something.

import { clamp } from "../canvas/format.js";

const nameOf = ({ backward }) => `attention moment ${backward ? "backward" : "forward"}`; // they have none in common

/** Notes the share of a model's run that is done, for when this tab comes back to it or is loaded again. */
export function note(model, share) {
  try {
    sessionStorage.setItem(nameOf(model), share);
  } catch {} // a browser may forbid it
}

/** The share that was noted, or null. */
export function noted(model) {
  try {
    const share = sessionStorage.getItem(nameOf(model));
    return share === null ? null : clamp(Number(share) || 0, 0, 1);
  } catch {
    return null;
  }
}

/** The part of the opened link behind its #; Streamlit drops it when it writes the scenario to the address. */
export function linkedMoment() {
  const [opened] = performance.getEntriesByType("navigation"),
    url = new URL(opened?.name || location.href);
  return new URLSearchParams(url.pathname === location.pathname ? url.hash.slice(1) : "");
}

/** The query block whose row is followed where query tiles come and go: one of them all the time; null where it follows the tile at work. */
export const waitingBlock = (model, run) =>
  run.keysOutside ? Math.round(0.6 * (model.queryBlocks - 1)) : null;

/** The first step past a third of the run that rescales, or gives gradients, so that the first picture has something to say. */
export function tellingStep(model, run) {
  const from = Math.floor(run.steps * 0.37),
    telling = model.backward ? "score_gradient" : "rescale",
    waiting = waitingBlock(model, run),
    tells = (_, s) =>
      s >= from && run.operation(s) === telling && (waiting === null || run.query[s] === waiting);
  const found = run.kind.findIndex(tells);
  return found < 0 ? from : found;
}
