// The words of a moment: the sentence above the picture and the marks under the scrubber.

import { duration, grouped, plural } from "../canvas/format.js";
import { raceSentence } from "./race_story.js";
import { blockSentence, sentence, stepWords } from "./story.js";

const READABLE = 0.7; // s that a sentence stands for at least; what changes sooner is not named in it
const TELLING = ["rescale", "softmax", "score_gradient"]; // the step of a tile that says most of it

export class Narrator {
  constructor(player) {
    this.player = player;
  }

  words(step) {
    const { model, run, race, seconds } = this.player;
    if (race) {
      const [winner] = model.finishing;
      const sentence = raceSentence(model, seconds, this.player.playing);
      if (!winner) return { sentence, where: "nothing races", length: "" };
      return {
        sentence,
        where: `${duration(seconds)} of modelled time`,
        length: `first after ${duration(model.runs[winner].time)}, last after ${duration(model.longest)}`,
      };
    }
    const visited = run.visitedBy(step);
    const noun = run.phases.length > 1 ? "visit" : "tile";
    const where =
      !run.has(step) || !visited
        ? stepWords(run, step)
        : `${noun} ${grouped(visited)} of ${grouped(run.visits)}, ${stepWords(run, step)}`;
    return { sentence: this.headline(step), where, length: plural(run.steps, "step") };
  }

  /** The sentence for this moment; at speeds too fast to read, that of the tile or of the whole block. */
  headline(step) {
    const { model, run, playing, speed } = this.player;
    if (!playing || !run.has(step)) return sentence(model, run, step, this.player.row);
    const visits = speed,
      steps = visits * (run.steps / run.visits);
    if (steps <= 3) return sentence(model, run, step, this.player.row);
    if (visits > 1.5) return blockSentence(model, run, step, run.outerSteps(step) / steps >= READABLE);
    const start = run.visit[step] < 0 ? step : run.visitStart[run.visit[step]];
    let told = start;
    while (told < run.steps && run.visit[told] === run.visit[start] && !TELLING.includes(run.operation(told)))
      told++;
    if (told >= run.steps || run.visit[told] !== run.visit[start])
      told = run.visit[step] < 0 ? step : start + 2;
    return sentence(model, run, Math.min(told, run.steps - 1), this.player.row);
  }
}
