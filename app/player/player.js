// One canvas, one clock: what a player shows of the moment that it stands at.

import { clamp, duration, grouped, plural } from "../canvas/format.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { showing } from "../canvas/view.js";
import { BackwardRowPanel } from "./backward_panels.js";
import { BAR } from "./bar.js";
import { linkedMoment, note, noted, tellingStep, waitingBlock } from "./first_moment.js";
import { layoutOf } from "./layout.js";
import { FLIGHT_SECONDS } from "./memory_panel.js";
import { Model } from "./model.js";
import { raceSentence } from "./race.js";
import { RowPanel } from "./row_panel.js";
import { NONE } from "./run.js";
import { brokenSentence, sentence, stepWords } from "./story.js";
import { visitsCsv } from "./visits_csv.js";

const FEW_TILES = 36,
  WHOLE_RUN = 15, // seconds that a run of so few tiles takes at most, for it is watched from end to end
  LONG_RUN = 90; // and any other
const READ = 3, // steps a second that can be read one by one
  TELLING = ["rescale", "softmax", "score_gradient"]; // the step of a tile that says most of it
const RACE_SECONDS = 24, // how long the slowest lane of a race takes at speed 1
  RACE_MARKS = 10000; // positions of the scrubber in a race
/** Of a `model` and its `run`; it is `at` a position of its steps, or of the race's scrubber. */
class Player extends TimedPlayer {
  static bar = BAR;
  static Model = Model;

  load(part) {
    this.run = this.model.run;
    if (part !== null && !this.model.begin) this.fraction = part;
    else this.open();
    const { flaws, arrays } = this.model,
      { visits } = this.run,
      most = visits <= FEW_TILES ? WHOLE_RUN : LONG_RUN,
      broken = Object.keys(arrays.wrong ?? {});
    this.controls.offer("flaw", ["", ...broken], (name) => flaws[name] ?? "Break it");
    this.controls.optionOf("flaw").hidden = !arrays.wrong;
    this.controls.optionOf("race").hidden = !this.races;
    if (!arrays.wrong) this.flaw = "";
    if (!this.chosen)
      this.speeds.single = BAR.speeds.find((speed) => visits / speed <= most) || BAR.speeds.at(-1);
  }

  /** The first moment shown: what the link says, what was seen last, or a tile that makes a row rescale. */
  open() {
    const linked = linkedMoment(),
      { begin } = this.model;
    if (begin) Object.assign(this, begin, { at: 0 });
    else if (linked.has("step") || linked.has("race")) {
      if (linked.has("row")) this.pinned = Number(linked.get("row"));
      this.race = linked.has("race") && this.races;
      const place = this.race ? linked.get("race") * RACE_MARKS : Number(linked.get("step"));
      this.at = clamp(place || 0, 0, this.last);
    } else if (noted(this.model) !== null) this.fraction = noted(this.model);
    else this.at = tellingStep(this.model, this.run) + 1;
  }

  // position: 0 before the first step, n for step n - 1 under way, one past the last when all is done

  get last() {
    return this.race ? RACE_MARKS : this.run.steps + 1;
  }

  get position() {
    return clamp(Math.floor(this.at), 0, this.last);
  }

  get seconds() {
    return (this.at / RACE_MARKS) * this.model.longest;
  }

  get time() {
    if (this.race) return this.seconds;
    return this.at >= this.last ? this.run.time : this.run.timeAt(this.position - 1);
  }

  set time(time) {
    if (this.race) this.at = Math.min(1, time / this.model.longest) * RACE_MARKS;
    else this.at = time >= this.run.time ? this.last : this.run.stepAt(time) + 1;
  }

  get end() {
    return this.race ? this.model.longest : this.run.time;
  }

  /** The current algorithm's step under way; -1 before the start, `steps` after the end. */
  get stepNow() {
    return this.race ? this.run.stepAt(this.seconds) : this.position - 1;
  }

  get speed() {
    return this.speeds[this.race ? "race" : "single"];
  }

  set speed(speed) {
    this.speeds = { ...this.speeds, [this.race ? "race" : "single"]: speed };
    if (!this.race) this.chosen = true;
  }

  step(by, far = false) {
    this.clock.stop();
    if (this.race) return this.seek(this.at + by * RACE_MARKS * (far ? 0.05 : 0.005));
    if (!far) return this.seek(this.position + by);
    const { visitStart, steps } = this.run,
      now = this.position - 1,
      target = by > 0 ? visitStart.find((s) => s > now) : visitStart.findLast((s) => s < now);
    this.seek((target ?? (by > 0 ? steps : -1)) + 1);
  }

  /** Whether there is another algorithm to run against. */
  get races() {
    return this.model.algorithms.length > 1;
  }

  /** Into the race at the modelled time of this step, and back to the step of that time. */
  setRace(on) {
    if (!this.races) return;
    const { time } = this;
    Object.assign(this, { race: on, time });
    this.fit(true);
  }

  passing(seconds) {
    return seconds * this.speed * (this.race ? RACE_MARKS / RACE_SECONDS : this.run.steps / this.run.visits);
  }

  // the row

  get followed() {
    const { model, run, stepNow: step } = this,
      last = model.queryBlocks - 1;
    if (run.keysOutside) return waitingBlock(model, run);
    if (step < 0) return 0;
    const near = [0, 1, 2, -1, -2].map((by) => step + by); // a key tile itself comes and goes without a query tile
    const at = near.find((s) => run.outerOf[s] === run.outerOf[step] && run.query[s] !== NONE);
    return run.query[at] ?? last;
  }

  get row() {
    const { model, pinned } = this;
    return pinned === null ? model.rowOf(this.followed) : model.nearest(pinned);
  }

  /** A race has lanes of tiles only where there is room for them. */
  get hallType() {
    return this.race ? 1.25 : super.hallType;
  }

  get takeHome() {
    const link = new URL(location.href),
      place = this.race ? { race: this.fraction.toFixed(4) } : { step: this.position };
    link.hash = new URLSearchParams({ ...place, ...(this.pinned !== null && { row: this.pinned }) });
    return {
      ...super.takeHome,
      title: "Player",
      name: `attention-${this.race ? "race" : this.run.name}`,
      link: link.href,
      files: { CSV: () => visitsCsv(this) },
    };
  }

  layout() {
    const panels = layoutOf(this.stage, this.model, this.race);
    this.tellsRow = panels.some(([Panel]) => Panel === RowPanel || Panel === BackwardRowPanel);
    return panels;
  }

  moment() {
    const { view, position, last, race, flaw, model, row, run } = this;
    return {
      ...{ view, position, last, race, flaw, part: position / last },
      ...(race ? this.raceWords() : this.words(view.step)),
      title: `${model.queryBlocks} by ${model.keyBlocks} tiles of the score matrix`,
      ...{ row: model.rows[row], algorithm: run.name },
    };
  }

  /** The step to tell of: where steps pass too fast to be read, the one of its tile that says most. */
  telling(step) {
    const { run, playing } = this,
      visit = run.has(step) ? run.visit[step] : NONE;
    if (!playing || visit < 0 || this.passing(1) <= READ) return step;
    let told = run.visitStart[visit];
    while (run.visit[told] === visit && !TELLING.includes(run.operation(told))) told++;
    return run.visit[told] === visit ? told : step;
  }

  words(step) {
    const { model, run, flaw, row, tellsRow } = this,
      visited = run.visitedBy(step),
      noun = run.phases.length > 1 ? "visit" : "tile",
      visits = run.has(step) && visited ? `${noun} ${grouped(visited)} of ${grouped(run.visits)}, ` : "",
      told = tellsRow ? row : -1; // of a row whose numbers are not on the screen nothing is said
    return {
      sentence: this.standing(
        () => brokenSentence(model, run, step, flaw) || sentence(model, run, this.telling(step), told),
      ),
      where: visits + stepWords(run, step),
      length: plural(run.steps, "step"),
    };
  }

  raceWords() {
    const { model, seconds } = this,
      [winner] = model.finishing,
      told = this.standing(() => raceSentence(model, seconds));
    if (!winner) return { sentence: told, where: "nothing races", length: "" };
    return {
      sentence: told,
      where: `${duration(seconds)} of modelled time`,
      length: `first after ${duration(model.runs[winner].time)}, last after ${duration(model.longest)}`,
    };
  }

  tell(title, words) {
    super.tell(title, words);
    if (!this.playing && !this.race) note(this.model, this.fraction);
  }

  /** What the picture of this moment depends on. */
  get view() {
    const { model, run, race, row, flaw, at, stepNow: step } = this,
      pinned = this.pinned !== null,
      following = !pinned && !run.keysOutside,
      seconds = race ? this.seconds : 0;
    return { ...{ model, run, step, seconds, at, row, flaw, pinned, following }, span: this.flightSteps };
  }

  /** How many steps a tile is on its way for at this pace; none where the picture stands, or its reader asks for less motion. */
  get flightSteps() {
    const { run, race, speed, clock } = this;
    if (race || !clock.playing || clock.calm.matches) return 0;
    return Math.max(1, (FLIGHT_SECONDS * speed * run.steps) / run.visits);
  }
}

export default showing(Player);
