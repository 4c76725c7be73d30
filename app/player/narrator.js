// The words of a moment: the sentence above the picture and the marks under the scrubber.

import { duration, grouped, plural } from "../canvas/format.js";
import { brokenSentence } from "./broken_story.js";
import { raceSentence } from "./race_story.js";
import { blockSentence, sentence, stepWords } from "./story.js";

const READABLE = 0.7; // s that a sentence stands for at least; what changes sooner is not named in it
const TELLING = ["rescale", "softmax", "score_gradient"]; // the step of a tile that says most of it

/** What a player says at a step of its run, or at its moment of the race: `sentence`, `where` and `length`. */
export function wordsOf(player, step) {
  const { model, run, race, seconds, playing, flaw } = player;
  if (!race)
    return {
      sentence: brokenSentence(model, run, step, flaw) || headline(player, step),
      where: place(run, step),
      length: plural(run.steps, "step"),
    };
  const [winner] = model.finishing,
    told = raceSentence(model, seconds, playing);
  if (!winner) return { sentence: told, where: "nothing races", length: "" };
  return {
    sentence: told,
    where: `${duration(seconds)} of modelled time`,
    length: `first after ${duration(model.runs[winner].time)}, last after ${duration(model.longest)}`,
  };
}

function place(run, step) {
  const visited = run.visitedBy(step),
    noun = run.phases.length > 1 ? "visit" : "tile";
  const visits = run.has(step) && visited ? `${noun} ${grouped(visited)} of ${grouped(run.visits)}, ` : "";
  return visits + stepWords(run, step);
}

/** The sentence for this moment; at speeds too fast to read, that of the tile or of the whole block. */
function headline({ model, run, playing, speed: visits, row: followed, tellsRow }, step) {
  const row = tellsRow ? followed : -1; // of a row whose numbers are not on the screen nothing is said
  const steps = visits * (run.steps / run.visits);
  if (!playing || !run.has(step) || steps <= 3) return sentence(model, run, step, row);
  if (visits > 1.5) return blockSentence(model, run, step, run.outerSteps(step) / steps >= READABLE);
  const visit = run.visit[step],
    start = visit < 0 ? step : run.visitStart[visit];
  let told = start;
  while (told < run.steps && run.visit[told] === run.visit[start] && !TELLING.includes(run.operation(told)))
    told++;
  if (told >= run.steps || run.visit[told] !== run.visit[start]) told = visit < 0 ? step : start + 2;
  return sentence(model, run, Math.min(told, run.steps - 1), row);
}
