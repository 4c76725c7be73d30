// One canvas, one clock: what a player shows of the moment that it stands at.

import { clamp, traffic } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { BackwardRowPanel } from "./backward_panels.js";
import { BAR, Controls } from "./controls.js";
import { linkedMoment, note, noted, tellingStep, waitingBlock } from "./first_moment.js";
import { layoutOf } from "./layout.js";
import { FLIGHT_SECONDS } from "./memory_panel.js";
import { Model } from "./model.js";
import { wordsOf } from "./narrator.js";
import { RowPanel } from "./row_panel.js";
import { NONE } from "./run.js";
import { visitsCsv } from "./steps_table.js";

const FEW_TILES = 36,
  WHOLE_RUN = 15, // seconds that a run of so few tiles takes at most, for it is watched from end to end
  LONG_RUN = 90; // and any other
const RACE_SECONDS = 24, // how long the slowest lane of a race takes at speed 1
  RACE_MARKS = 10000; // positions of the scrubber in a race
const remembered = {}; // by what is played: what a player passes on to the next one when the reader leaves the page and returns

/** Of a `model` and its `run`; it is `at` a position of its steps, or of the race's scrubber. */
class Player extends TimedPlayer {
  static bar = BAR;
  static Model = Model;
  static Controls = Controls;

  release() {
    if (!this.model.begin) remembered[this.plays] = { fraction: this.fraction, ...this.kept() };
    super.release();
  }

  /** A forward and a backward pass have no moments in common. */
  get plays() {
    return this.model.backward ? "backward" : "forward";
  }

  kept() {
    const { loop, race, slot, pinned, speeds } = this;
    return { loop, race, slot, pinned, speeds };
  }

  load(part) {
    this.run = this.model.run;
    if (part !== null && !this.model.begin) this.fraction = part;
    else this.open();
    this.root.querySelector('[data-do="race"]').hidden = !this.races;
    const { flaws, arrays } = this.model;
    this.controls.offer(
      "flaw",
      ["", ...Object.keys(arrays.wrong ?? {})],
      (name) => flaws[name] ?? "Break it",
    );
    this.root.querySelector('[data-is="flaw"]').hidden = !arrays.wrong;
    if (!arrays.wrong) this.flaw = "";
    const { visits } = this.run,
      most = visits <= FEW_TILES ? WHOLE_RUN : LONG_RUN;
    if (!this.chosen)
      this.speeds.single = BAR.speeds.find((speed) => visits / speed <= most) || BAR.speeds.at(-1);
  }

  /** The first moment shown: what the link says, what was seen last, or a tile that makes a row rescale. */
  open() {
    const linked = linkedMoment();
    if (this.model.begin) {
      Object.assign(this, this.model.begin);
      this.fraction = 0;
    } else if (remembered[this.plays]) {
      Object.assign(this, remembered[this.plays]);
    } else if (linked.has("step") || linked.has("race")) {
      if (linked.has("row")) this.pinned = Number(linked.get("row"));
      this.race = linked.has("race") && this.races;
      this.at = this.race
        ? clamp(Number(linked.get("race")) || 0, 0, 1) * RACE_MARKS
        : Number(linked.get("step")) || 0;
      this.at = clamp(this.at, 0, this.last);
    } else if (noted() !== null) {
      this.fraction = noted();
    } else {
      this.at = tellingStep(this.model, this.run, this.slot) + 1;
    }
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
    const { time } = this;
    this.race = on;
    this.time = time;
    this.fit(true);
  }

  passing(seconds) {
    return seconds * this.speed * (this.race ? RACE_MARKS / RACE_SECONDS : this.run.steps / this.run.visits);
  }

  // the row

  get followed() {
    const { model, run } = this,
      step = this.stepNow;
    if (run.keysOutside) return waitingBlock(model, run);
    if (step < 0) return 0;
    if (step >= run.steps) return model.queryBlocks - 1;
    const near = [0, 1, 2, -1, -2].map((by) => step + by); // a key tile itself comes and goes without a query tile
    const at = near.find((s) => run.outerOf[s] === run.outerOf[step] && run.query[s] !== NONE);
    return at === undefined ? model.queryBlocks - 1 : run.query[at];
  }

  get row() {
    return this.pinned === null
      ? this.model.rowOf(this.followed, this.slot)
      : this.model.nearest(this.pinned);
  }

  moveRow(by, far) {
    if (this.race) return;
    const { model } = this,
      from = this.row;
    const row = far
      ? model.rowOf(clamp(model.blockOf(from) + by, 0, model.queryBlocks - 1), this.slot)
      : from + by;
    this.choose("pinned", model.rows[clamp(row, 0, model.rows.length - 1)]);
  }

  /** A press on a row of the grid keeps that row in view. */
  press({ offsetX: x, offsetY: y }) {
    super.press();
    if (this.race) return;
    const [panel] = this.stage.panels,
      { grid } = panel;
    if (x < grid.q.x - 8 || x > grid.right || grid.queryAt(y) < 0) return;
    this.choose("pinned", this.model.rows[this.model.nearest(panel.rowAt(y))]);
  }

  /** A race has lanes of tiles only where there is room for them. */
  get hallType() {
    return this.race ? 1.25 : super.hallType;
  }

  get takeHome() {
    return {
      ...super.takeHome,
      title: "Player: picture, animation, tile visits",
      labels: {
        PNG: "Player's picture",
        GIF: "Player's run",
        MP4: "Player's run",
        CSV: "Player's tile visits",
      },
      name: `attention-${this.race ? "race" : this.run.name}`,
      link: this.link(),
      files: { CSV: () => visitsCsv(this) },
    };
  }

  link() {
    const url = new URL(location.href);
    const place = this.race ? { race: this.fraction.toFixed(4) } : { step: this.position };
    if (this.pinned !== null) place.row = this.pinned;
    url.hash = new URLSearchParams(place).toString();
    return url.href;
  }

  // drawing

  fit(anyway = false) {
    super.fit(anyway);
    if (this.stage.pen) this.paintTicks();
  }

  layout() {
    const panels = layoutOf(this.stage, this.model, this.race);
    this.tellsRow = panels.some(([Panel]) => Panel === RowPanel || Panel === BackwardRowPanel);
    return panels;
  }

  paintTicks() {
    const { run, model } = this;
    const parts = this.race
      ? model.finishing.map((name) => ({ part: model.runs[name].time / model.longest, tall: true }))
      : run.outerStart.map((s) => ({
          part: (s + 1) / this.last,
          tall: s > 0 && run.phase[s] !== run.phase[s - 1],
        }));
    this.controls.paintTicks(parts, this.theme.muted);
  }

  moment() {
    const { view, position, last, playing, race, loop, speed, flaw, model, row, run } = this,
      stands = { position, part: position / last, last, playing, race, loop, speed, flaw };
    return { view, ...wordsOf(this, view.step), ...stands, row: model.rows[row], algorithm: run.name };
  }

  paint() {
    const { view, ...told } = this.moment();
    this.stage.paint(view);
    this.controls.show(told);
    clearTimeout(this.tableTimer);
    if (!this.playing) this.tableTimer = setTimeout(() => this.settle(), 150);
  }

  settle() {
    this.controls.table.fill();
    if (!this.race) note(this.fraction);
    const { model, run } = this;
    this.stage.canvas.setAttribute(
      "aria-label",
      `${model.queryBlocks} by ${model.keyBlocks} tiles of the score matrix; ` +
        `${this.controls.shown.where}. ${this.controls.shown.sentence} ` +
        `Requested from L2 so far: ${traffic(run.readAt(this.stepNow))} read, ${traffic(run.writtenAt(this.stepNow))} written; ` +
        `across HBM, modelled: ${traffic(run.readAt(this.stepNow, "crossing"))} and ${traffic(run.writtenAt(this.stepNow, "crossing"))}.`,
    );
  }

  /** What the picture of this moment depends on. */
  get view() {
    const { model, run, race, row, flaw, stepNow: step } = this,
      pinned = this.pinned !== null;
    return {
      model,
      run,
      step,
      seconds: race ? this.seconds : 0,
      at: this.at,
      span: this.flightSteps,
      row,
      flaw,
      pinned,
      following: !pinned && !run.keysOutside,
    };
  }

  /** How many steps a tile is on its way for at this pace; none where the picture stands, or its reader asks for less motion. */
  get flightSteps() {
    const { run, race, speed, clock } = this;
    if (race || !clock.playing || clock.calm.matches) return 0;
    return Math.max(1, (FLIGHT_SECONDS * speed * run.steps) / run.visits);
  }
}

const show = showing(Player, "__player");
export default show;
