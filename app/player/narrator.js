// The words of a moment: the sentence above the picture and the marks under the scrubber.

import { duration, grouped, plural } from "../canvas/format.js";
import { raceSentence } from "./race_story.js";
import { NONE } from "./run.js";
import { blockSentence, sentence, stepWords } from "./story.js";

const TELLING = ["rescale", "softmax", "score_gradient"]; // the step of a tile that says most of it

export class Narrator {
  constructor(player) {
    this.player = player;
  }

  words(step) {
    const { model, run, race, seconds } = this.player;
    if (race) {
      const [winner] = model.finishing;
      const sentence = this.steady(() => raceSentence(model, seconds), 300);
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
    if (!playing || !run.has(step)) return sentence(model, run, step, this.rowAtWork(step));
    const visits = speed,
      steps = visits * (run.steps / run.visits);
    if (steps <= 3) return sentence(model, run, step, this.rowAtWork(step));
    if (visits > 1.5) return this.steady(() => blockSentence(model, run, step), 700);
    const start = run.visit[step] < 0 ? step : run.visitStart[run.visit[step]];
    let told = start;
    while (told < run.steps && run.visit[told] === run.visit[start] && !TELLING.includes(run.operation(told)))
      told++;
    if (told >= run.steps || run.visit[told] !== run.visit[start])
      told = run.visit[step] < 0 ? step : start + 2;
    return sentence(model, run, Math.min(told, run.steps - 1), this.rowAtWork(step));
  }

  /** While playing, words stand for a while before others replace them. */
  steady(words, milliseconds) {
    const now = performance.now(),
      { playing, race } = this.player;
    if (!playing || !this.stood || now - this.stood.since > milliseconds || race !== this.stood.race) {
      this.stood = { words: words(), since: now, race };
    }
    return this.stood.words;
  }

  /** The row that the sentence tells of: the chosen one when its tile is at work, else its like in that tile. */
  rowAtWork(step) {
    const { model, run, row } = this.player,
      i = run.has(step) ? run.query[step] : NONE;
    return i === NONE || model.blockOf(row) === i ? row : model.rowOf(i, this.player.slot);
  }
}
