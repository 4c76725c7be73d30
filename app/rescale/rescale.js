// One canvas, one clock: everything that a row has summed shrinks together when a larger score comes.

import { cut } from "../canvas/cut.js";
import { clamp, decimal, eased, factor, toldApart } from "../canvas/format.js";
import { NARROW } from "../canvas/stage.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { unpack } from "../canvas/unpack.js";
import { showing } from "../canvas/view.js";
import { NumbersPanel, OutPanel, ScoresPanel, WeightsPanel } from "./panels.js";
import { resultOf, tilesOf } from "./run.js";

const MOMENT = 2.2, // seconds that a moment of the run takes,
  WALK = 60; // and all of them at most
const LOW = 420; // units: below it there is no room for a third picture
const ROOM = 0.12; // of the range of the scores, below and above them
const NUDGE = 0.1; // of a score, by an arrow key
const BAR = {
  label: "What α rescales",
  state: { speed: 1, rescaling: true, chosen: 0 },
  walk: ({ longest }) => Math.min(MOMENT * longest, WALK),
  far: "to the tile before, or next",
  options: [
    {
      ...{ name: "broken", key: "b", words: "Break it: no α", pressed: true },
      act: (player) => player.rerun({ rescaling: !player.rescaling }),
      told: "leave α out, and see what comes of it",
    },
  ],
  keys: [
    {
      ...{ name: "↑ ↓", told: "the chosen score, larger or smaller; or drag any" },
      act: (player, far) => ({
        ArrowUp: () => player.nudge(far ? 5 : 1),
        ArrowDown: () => player.nudge(far ? -5 : -1),
      }),
    },
  ],
};

/** The row as the server sent it, and as it is being dragged. */
class Row {
  constructor(bytes) {
    const { header } = unpack(bytes);
    Object.assign(this, header);
    this.drawn = header.scores.map((score) => score ?? -Infinity);
    this.scores = this.drawn;
    const finite = this.drawn.filter(Number.isFinite),
      [low, high] = [Math.min(-0.5, ...finite), Math.max(1, ...finite)];
    this.range = [low - ROOM * (high - low), high + ROOM * (high - low)];
    this.run(true);
  }

  run(rescaling) {
    const row = [this.scores, this.values, this.block];
    this.tiles = tilesOf(...row, rescaling, this.threshold);
    this.right = resultOf(tilesOf(...row, true));
    this.found = resultOf(this.tiles);
    this.moments = this.tiles.flatMap((_, tile) =>
      (tile ? ["scores", "rescale", "add"] : ["scores", "add"]).map((kind) => ({ tile, kind })),
    );
    this.moments.push({ tile: this.tiles.length - 1, kind: "divide" });
    this.longest = this.moments.length;
    const telling = this.moments.findIndex(({ tile, kind }) => kind === "add" && this.tiles[tile].alpha % 1);
    this.first = telling < 0 ? this.longest : telling + 1; // after the first tile that made all shrink
  }

  /** What happens at a place of the run, and how much of it has happened. */
  at(place) {
    const n = Math.max(0, Math.ceil(place) - 1);
    return { n, ...this.moments[n], part: eased(place - n) };
  }

  /** What happens, in words. */
  sentence({ tile, kind }, rescaling) {
    const { was, largest, m, alpha, l } = this.tiles[tile],
      name = `Tile ${tile + 1}`;
    if (m === -Infinity && kind !== "divide")
      return `${name}: every key so far is masked, so m stays −∞, l stays 0, and nothing turns into NaN.`;
    if (kind === "scores") {
      if (was === -Infinity) return `${name} comes: its largest score is ${decimal(m)}, the maximum m.`;
      if (m > was)
        return `${name} brings a larger score: the maximum m rises from ${toldApart(was, m).join(" to ")}.`;
      return largest > was
        ? `${name} brings a larger score, ${decimal(largest)}: no weight passes 2^${this.threshold}, so m stays ${decimal(m)}.`
        : `${name} comes: no score is larger, so the maximum m stays ${decimal(m)}.`;
    }
    if (kind === "add")
      return `${name} lands: its weights come into l, now ${decimal(l.after)}, and its values into O.`;
    if (kind === "rescale") {
      if (alpha === 1) return "α = 1: nothing that is summed has to change.";
      return rescaling
        ? `All that is summed shrinks together, to α = e^(${decimal(was)} − ${decimal(m)}) = ${factor(alpha)} of itself.`
        : `α = ${factor(alpha)} is left out: old weights stay too large beside new ones.`;
    }
    const same = decimal(this.found[0], 3) === decimal(this.right[0], 3),
      wrong = "wrong, as old and new weights are on different scales.";
    return `O is divided by l once, at the end: ${same ? "the same as with all scores at once." : wrong}`;
  }
}

class Rescaler extends TimedPlayer {
  static bar = BAR;
  static Model = Row;

  /** A finger that takes a score by its end drags that; anywhere else it scrolls the page. */
  constructor(parent) {
    super(parent);
    const { canvas } = this.stage;
    const touched = (event) => {
      const { left, top } = canvas.getBoundingClientRect(),
        [{ clientX, clientY }] = event.touches;
      if (this.scores.gripped(clientX - left, clientY - top)) event.preventDefault();
    };
    canvas.addEventListener("touchstart", touched, { passive: false });
  }

  load(part) {
    super.load(part);
    this.model.run(this.rescaling);
    this.chosen = this.model.scores.indexOf(Math.max(...this.model.scores));
  }

  /** Everything anew, in the same moment. */
  rerun(change) {
    Object.assign(this, change);
    this.model.run(this.rescaling);
    this.draw();
  }

  score(key, value) {
    const held = Math.round(clamp(value, ...this.model.range) * 100) / 100;
    this.model.scores = this.model.scores.with(key, held);
    this.rerun({ chosen: key });
  }

  nudge(by) {
    this.score(this.chosen, this.model.scores[this.chosen] + NUDGE * by);
  }

  get shared() {
    const shared = super.shared;
    return { ...shared, state: { ...shared.state, scores: this.model.scores } };
  }

  adopt({ scores, ...state }) {
    this.model.scores = scores.map((score) => score ?? -Infinity);
    super.adopt(state);
    this.model.run(this.rescaling);
  }

  eventBeside(by) {
    return by > 0 ? Math.floor(this.at) + 1 : Math.ceil(this.at) - 1;
  }

  step(by, far = false) {
    this.clock.stop();
    const { moments } = this.model;
    let at = this.eventBeside(by);
    if (far) while (at > 0 && at < this.last && moments[at - 1].kind !== "add") at += by;
    this.seek(at);
  }

  get scores() {
    return this.stage.panels.find((panel) => panel instanceof ScoresPanel);
  }

  press(event) {
    super.press();
    const { offsetX: x, offsetY: y, pointerType } = event,
      key = this.scores.keyAt(x, y);
    if (key < 0 || (pointerType === "touch" && !this.scores.gripped(x, y))) return;
    this.held = key;
    this.stage.canvas.setPointerCapture(event.pointerId);
    this.score(key, this.scores.valueAt(event.offsetY));
  }

  point(event) {
    if (this.held >= 0) this.score(this.held, this.scores.valueAt(event.offsetY));
  }

  lift() {
    this.held = -1;
  }

  /** Pictures at the left, the numbers at the right; a phone's stand below. Where it is low, O is only among them. */
  layout() {
    const { width: w, height: h, u } = this.stage,
      narrow = w < NARROW,
      short = narrow || h < LOW * u,
      gap = 22 * u,
      all = { x: 0, y: 0, w, h },
      [left, right] = narrow
        ? cut(all, "y", gap, [null, 218 * u])
        : cut(all, "x", 1.6 * gap, [null, 0.36 * w]),
      panels = [ScoresPanel, WeightsPanel, ...(short ? [] : [OutPanel])],
      boxes = cut(left, "y", gap, Array(panels.length).fill(null));
    return [
      ...panels.map((Panel, n) => [Panel, boxes[n], { narrow }]),
      [NumbersPanel, right, { narrow: short }],
    ];
  }

  moment() {
    const { at, rescaling, chosen, model } = this,
      now = model.at(at);
    return {
      view: { at, rescaling, chosen, now },
      sentence: model.sentence(now, rescaling),
      where: `moment ${now.n + 1} of ${model.longest}: ${now.kind}`,
      length: `tile ${now.tile + 1} of ${model.tiles.length}`,
      broken: !rescaling,
    };
  }
}

export default showing(Rescaler);
