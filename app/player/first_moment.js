// The moment to begin with: the share of the run that was noted before a reload, what the opened link says, or one that tells something.

import { clamp } from "../canvas/format.js";

const MOMENT = "attention moment"; // the name that the share is kept by

/** Notes the share of a run that is done, for when this tab is loaded again. */
export function note(share) {
  try {
    sessionStorage.setItem(MOMENT, share);
  } catch {} // a browser may forbid it
}

/** The share that was noted, where the page was loaded again; else null. */
export function noted() {
  try {
    const [opened] = performance.getEntriesByType("navigation"),
      share = sessionStorage.getItem(MOMENT);
    return opened?.type === "reload" && share !== null ? clamp(Number(share) || 0, 0, 1) : null;
  } catch {
    return null;
  }
}

/** The part of the opened link behind its #; Streamlit drops it when it writes the scenario to the address. */
export function linkedMoment() {
  const [opened] = performance.getEntriesByType("navigation");
  const url = new URL(opened?.name || location.href);
  return new URLSearchParams(url.pathname === location.pathname ? url.hash.slice(1) : "");
}

/** The query block whose row is followed where query tiles come and go: one of them all the time; null where it follows the tile at work. */
export function waitingBlock(model, run) {
  return run.keysOutside ? Math.round(0.6 * (model.queryBlocks - 1)) : null;
}

/** The step about a third through at which the followed row rescales, so that the first picture has something to say. */
export function tellingStep(model, run, slot) {
  const from = Math.floor(run.steps * 0.37);
  if (model.backward) return tellingGradient(model, run, slot, from);
  const waiting = waitingBlock(model, run);
  let best = null;
  for (let s = waiting === null ? from : 0; s < run.steps; s++) {
    if (run.operation(s) !== "rescale" || (waiting !== null && run.query[s] !== waiting)) continue;
    const { alpha } = model.after(model.rowOf(run.query[s], slot), run.key[s]);
    if (!(alpha > 0.05 && alpha < 0.9)) continue;
    if (best !== null && Math.abs(s - from) > Math.abs(best - from)) break;
    best = s;
    if (s >= from) break;
  }
  return best ?? from;
}

/** A step at which the followed row has a good part of its weight in the tile, and so something to pass on. */
function tellingGradient(model, run, slot, from) {
  let first = from; // the first at all, where none has so much
  for (let s = run.steps - 1; s >= from; s--) if (run.operation(s) === "score_gradient") first = s;
  for (let s = first; s < run.steps; s++) {
    if (run.operation(s) !== "score_gradient") continue;
    if (model.rowInTile(model.rowOf(run.query[s], slot), run.key[s]).weight > 0.08) return s;
  }
  return first;
}
