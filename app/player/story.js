// What happens now, in one sentence, and which line of the algorithm it is: told by what a run is like.

import { capital, percent, times, traffic } from "../canvas/format.js";
import { BACKWARD_STORY } from "./backward_story.js";
import { FUSED_STORY } from "./fused_story.js";
import { tilesAdded } from "./row_state.js";
import { NONE } from "./run.js";
import { UNFUSED_STORY } from "./unfused_story.js";

// Of each kind of run: its kernels, each of lines with the steps that they are, how it opens and closes, and a step.
const STORIES = { whole: UNFUSED_STORY, gradients: BACKWARD_STORY, online: FUSED_STORY };

/** The lines to show, and which of them the step is (-1: none): the whole algorithm, or the kernel at work. */
export function codeShown(run, step) {
  const { code, oneByOne } = STORIES[run.rows],
    kernels = code(run),
    at = step < 0 ? 0 : step < run.steps ? run.phase[step] : kernels.length - 1,
    now = kernels[Math.min(at, kernels.length - 1)],
    lit = run.has(step) ? now.findIndex(([, ...told]) => told.some((one) => isStep(one, run, step))) : -1;
  if (oneByOne) return [now.map(([line]) => line), lit];
  const before = kernels.slice(0, kernels.indexOf(now)).flat().length;
  return [kernels.flat().map(([line]) => line), lit < 0 ? lit : before + lit];
}

/** Whether a step is what a line says of itself: an operation, or one on some tensors, as in "load K V". */
function isStep(told, run, step) {
  const [operation, ...tensors] = told.split(" ");
  return run.operation(step) === operation && (!tensors.length || tensors.includes(run.tensor(step)));
}

/** One sentence (sometimes two) about a step; `index` is a sampled row of the query tile at work. */
export function sentence(model, run, step, index) {
  const story = STORIES[run.rows];
  if (step < 0) return story.opening(model, run);
  if (step >= run.steps) return story.closing(model, run);
  const [i, j, operation, tensor] = [run.query[step], run.key[step], run.operation(step), run.tensor(step)],
    bytes = run.bytesOf(step),
    size = traffic(bytes),
    own = model.blockOf(index) === i; // whether that row is among those at work
  const told = story.step({ model, run, step, index, own, i, j, operation, tensor, size });
  if (told) return told;
  const where = [i === NONE ? [] : `query tile ${i}`, j === NONE ? [] : `key tile ${j}`].flat().join(", ");
  return `${capital(where || "all tiles")}: ${stepWords(run, step)}${bytes ? `, ${size}` : ""}.`; // a step that no story knows
}

const OPERATION_WORDS = {
  ...{ scores: "scores", maximum: "maximum", rescale: "rescale", accumulate: "accumulate" },
  ...{ softmax: "softmax", row_terms: "δ of the rows", weights: "weights", combine: "combine" },
  ...{ value_gradient: "add to dV", weight_gradient: "dP", score_gradient: "dS" },
  ...{ key_gradient: "add to dK", query_gradient: "add to dQ" },
};
const TENSOR_WORDS = { statistics: "m, l", delta: "δ" };

/** What a step does, as short as it can be said. */
export function stepWords(run, step) {
  if (!run.has(step)) return step < 0 ? "before the first step" : "done";
  const [operation, tensor] = [run.operation(step), run.tensor(step)];
  return OPERATION_WORDS[operation] ?? `${operation} ${TENSOR_WORDS[tensor] ?? tensor}`;
}

// what comes of it when a line of the kernel is left out

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
