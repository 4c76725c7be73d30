// Where a player stands in its run or in its race, and how it moves on.

import { clamp } from "../canvas/format.js";
import { TimedPlayer } from "../canvas/timed_player.js";

const RACE_SECONDS = 24; // how long the slowest lane of a race takes at speed 1
export const RACE_MARKS = 10000; // positions of the scrubber in a race

/** Of a `model` and its `run`; it is `at` a position of its steps, or of the race's scrubber. */
export class Position extends TimedPlayer {
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

  /** The current algorithm's step under way; -1 before the start, `steps` after the end. */
  get stepNow() {
    return this.race ? this.run.stepAt(this.seconds) : this.position - 1;
  }

  get speed() {
    return this.speeds[this.race ? "race" : "single"];
  }

  set speed(speed) {
    this.speeds[this.race ? "race" : "single"] = speed;
    if (!this.race) this.chosen = true;
  }

  step(by, far = false) {
    this.clock.stop();
    if (this.race) return this.seek(this.at + by * RACE_MARKS * (far ? 0.05 : 0.005));
    if (!far) return this.seek(this.position + by);
    const { visitStart } = this.run,
      now = this.position - 1;
    const starts = by > 0 ? visitStart.filter((s) => s > now) : visitStart.filter((s) => s < now);
    const target = by > 0 ? (starts[0] ?? this.run.steps) : (starts.at(-1) ?? -1);
    this.seek(target + 1);
  }

  /** Whether there is another algorithm to run against. */
  get races() {
    return this.model.algorithms.length > 1;
  }

  /** Into the race at the modelled time of this step, and back to the step of that time. */
  setRace(on) {
    if (!this.races) return;
    const seconds = this.race ? this.seconds : this.run.timeAt(this.position - 1),
      ended = this.at >= this.last;
    this.race = on;
    if (on) this.at = Math.min(1, seconds / this.model.longest) * RACE_MARKS;
    else this.at = seconds >= this.run.time || ended ? this.last : this.run.stepAt(seconds) + 1;
    this.fit(true);
  }

  passing(seconds) {
    return seconds * this.speed * (this.race ? RACE_MARKS / RACE_SECONDS : this.run.steps / this.run.visits);
  }
}
