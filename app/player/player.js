// One canvas, one clock: what a player shows of the moment that it stands at.

import { clamp, traffic } from "../canvas/format.js";
import { showing } from "../canvas/showing.js";
import { Controls, SPEEDS } from "./controls.js";
import { takeHome } from "./film.js";
import { linkedMoment, note, noted, tellingStep, waitingBlock } from "./first_moment.js";
import { FLIGHT_SECONDS } from "./flights.js";
import { layoutOf } from "./layout.js";
import { Model } from "./model.js";
import { Narrator } from "./narrator.js";
import { Position, RACE_MARKS } from "./position.js";
import { NONE } from "./run.js";
import { tileWords } from "./tile_words.js";

const FEW_TILES = 36,
  WHOLE_RUN = 15, // seconds that a run of so few tiles takes at most, for it is watched from end to end
  LONG_RUN = 90; // and any other
const remembered = {}; // by what is played: what a player passes on to the next one when the reader leaves the page and returns

class Player extends Position {
  constructor(parent) {
    super(parent, Controls, { slot: 0.5, pinned: null });
    this.narrator = new Narrator(this);
    this.root.takeHome = takeHome(this);
  }

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

  /** The place in the run stays. */
  update(bytes) {
    if (super.update(bytes)) this.redrawn = performance.now();
  }

  load(bytes) {
    const fraction = this.model ? this.fraction : null;
    this.bytes = bytes.slice();
    this.model = new Model(this.bytes);
    this.run = this.model.run;
    if (fraction !== null && !this.model.begin) this.fraction = fraction;
    else this.open();
    this.controls.suit(this.model, this.races);
    const visits = this.run.visits;
    const most = visits <= FEW_TILES ? WHOLE_RUN : LONG_RUN;
    if (!this.chosen) this.speeds.single = SPEEDS.find((speed) => visits / speed <= most) || SPEEDS.at(-1);
  }

  /** The first moment shown: what the link says, what was seen last, or a tile that makes a row rescale. */
  open() {
    const linked = linkedMoment();
    if (this.model.begin) {
      this.race = this.model.begin.race;
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
    this.pinned = model.rows[clamp(row, 0, model.rows.length - 1)];
    this.draw();
  }

  /** A press on a row of the grid keeps that row in view. */
  press({ offsetX: x, offsetY: y }) {
    super.press();
    if (this.race) return;
    const { grid } = this.stage.panels[0];
    if (x < grid.q.x - 8 || x > grid.right || grid.queryAt(y) < 0) return;
    this.pinned = this.model.rows[this.model.nearest(Math.floor((y - grid.y0) / grid.perQuery))];
    this.draw();
  }

  follow() {
    this.pinned = null;
    this.draw();
  }

  link() {
    const url = new URL(location.href);
    const place = this.race ? { race: this.fraction.toFixed(4) } : { step: this.position };
    if (this.pinned !== null) place.row = this.pinned;
    url.hash = new URLSearchParams(place).toString();
    return url.href;
  }

  // drawing

  layout() {
    return layoutOf(this.stage, this.model, this.race);
  }

  /** What the tile under the pointer is; a tip that stands is not made again. */
  hover(x, y) {
    for (const [n, { grid, painter }] of this.stage.panels.entries()) {
      const tile = grid?.tileAt(x, y),
        name = `${n} ${tile}`;
      if (!tile) continue;
      if (name !== this.pointed)
        this.tip.show(this.stage, grid.cell(...tile), tileWords(painter.model, painter.run, ...tile));
      this.pointed = name;
      return;
    }
    this.leave();
  }

  leave() {
    this.pointed = "";
    super.leave();
  }

  fit(anyway = false) {
    if (super.fit(anyway)) this.paintTicks();
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

  /** Draws this moment now. */
  draw() {
    if (!this.stage.pen) return;
    this.paint();
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
    const { model, run, race, row, stepNow: step } = this,
      pinned = this.pinned !== null;
    return {
      model,
      run,
      step,
      seconds: race ? this.seconds : 0,
      at: this.at,
      span: this.flightSteps,
      row,
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

  paint() {
    const { stage, controls, narrator, view, position, last, playing, race, loop, speed } = this;
    stage.paint(view);
    const stands = { position, part: position / last, last, playing, race, loop, speed };
    controls.show({ ...narrator.words(view.step), ...stands });
  }
}

/**
 * For tests and benchmarks `window.__player` offers: seek(position) draws at once and returns the milliseconds it took;
 * state() tells position, last, playing, race, row, sentence, and when the latest payload stood on the canvas;
 * frames lists [time, milliseconds of work] of played frames.
 */
const show = showing(Player, (player) => {
  const { frames, controls } = player;
  window.__player = {
    frames,
    seek(position) {
      const start = performance.now();
      player.seek(position);
      return performance.now() - start;
    },
    state: () => ({
      position: player.position,
      last: player.last,
      playing: player.playing,
      race: player.race,
      loop: player.loop,
      speed: player.speed,
      row: player.model.rows[player.row],
      algorithm: player.run.name,
      redrawn: player.redrawn,
      ...controls.shown,
    }),
  };
});
export default show;
