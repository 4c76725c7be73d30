// What happens now, in one sentence, and which line of the algorithm it is: told by what a run is like.

import { capital, traffic } from "../canvas/format.js";
import { BACKWARD_STORY } from "./backward_story.js";
import { FUSED_STORY } from "./fused_story.js";
import { NONE } from "./run.js";
import { UNFUSED_STORY } from "./unfused_story.js";

// Of each kind of run: its lines of code with the one that a step is, how it opens and closes, a step, a whole outer block.
const STORIES = { whole: UNFUSED_STORY, gradients: BACKWARD_STORY, online: FUSED_STORY };

const storyOf = (run) => STORIES[run.rows];

/** The lines to show, and which of them the step is (-1: none): the whole algorithm, or the kernel at work. */
export function codeShown(run, step) {
  return storyOf(run).code(run, step);
}

/** One sentence (sometimes two) about a step; `index` is a sampled row of the query tile at work. */
export function sentence(model, run, step, index) {
  const story = storyOf(run);
  if (step < 0) return story.opening(model, run);
  if (step >= run.steps) return story.closing(model, run);
  const tensor = run.tensor(step),
    size = traffic(run.bytesOf(step));
  const told = {
    model,
    run,
    step,
    index,
    own: model.blockOf(index) === run.query[step], // whether that row is among those at work
    i: run.query[step],
    j: run.key[step],
    operation: run.operation(step),
    tensor,
    size,
  };
  return story.step(told) ?? plainSentence(told);
}

/** What a whole outer block does, for speeds at which single tiles cannot be read; without its number where blocks cannot be read either. */
export function blockSentence(model, run, step, numbered = true) {
  return run.has(step) ? storyOf(run).block(model, run, step, numbered) : sentence(model, run, step, 0);
}

/** Of a step that no story knows: what it does, and where. */
function plainSentence({ run, step, i, j, size }) {
  const where = [i === NONE ? "" : `query tile ${i}`, j === NONE ? "" : `key tile ${j}`]
    .filter(Boolean)
    .join(", ");
  const moved = run.bytesOf(step) ? `, ${size}` : "";
  return `${capital(where || "all tiles")}: ${stepWords(run, step)}${moved}.`;
}

const OPERATION_WORDS = {
  scores: "scores",
  maximum: "maximum",
  rescale: "rescale",
  accumulate: "accumulate",
  softmax: "softmax",
  row_terms: "δ of the rows",
  weights: "weights",
  value_gradient: "add to dV",
  weight_gradient: "dP",
  score_gradient: "dS",
  key_gradient: "add to dK",
  query_gradient: "add to dQ",
  combine: "combine",
};
const TENSOR_WORDS = { statistics: "m, l", delta: "δ" };

/** What a step does, as short as it can be said. */
export function stepWords(run, step) {
  if (step < 0) return "before the first step";
  if (step >= run.steps) return "done";
  const operation = run.operation(step),
    tensor = run.tensor(step);
  return OPERATION_WORDS[operation] ?? `${operation} ${TENSOR_WORDS[tensor] ?? tensor}`;
}
