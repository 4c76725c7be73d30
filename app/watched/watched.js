// One canvas, one clock: a user's kernel as it ran, beside FlashAttention-2, with its source.

import { showing } from "../canvas/showing.js";
import { NARROW } from "../canvas/stage.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { BytesPanel } from "./bytes.js";
import { WatchedControls } from "./controls.js";
import { TouchedPanel } from "./grids.js";
import { Watched } from "./run.js";
import { Source } from "./source.js";
import { sentence, tileWords } from "./story.js";

const CALM_PAUSE = 400; // ms between the pictures of a calm run
const STEPS_PER_SECOND = 4,
  LEAST_ROOM = 330, // units, below which bytes leave no room for the grids
  LONGEST = 40; // seconds from the start to the end, at the usual speed

class WatchedPlayer extends TimedPlayer {
  constructor(parent) {
    super(parent, WatchedControls, CALM_PAUSE, { speed: 1 });
    this.source = new Source(this.root);
  }

  /** The share of the way stays; at first the run is shown done, with all that is marked. */
  load(bytes) {
    const part = this.model ? this.fraction : 1;
    this.bytes = bytes.slice();
    this.model = new Watched(this.bytes);
    this.at = Math.round(part * this.model.longest);
    this.controls.suit(this.model);
    this.source.load(this.model);
  }

  fit(anyway = false) {
    super.fit(anyway);
    this.source.keep();
  }

  eventBeside(by) {
    return Math.floor(this.at) + by;
  }

  nextMark() {
    const at = this.model.nextMark(Math.floor(this.at));
    this.clock.stop();
    if (at > 0) this.seek(at);
  }

  hover(x, y) {
    for (const { grid, run } of this.stage.panels) {
      const tile = grid?.tileAt(x, y);
      if (tile) return this.tip.show(this.stage, grid.cell(...tile), tileWords(this.model, run, ...tile));
    }
    this.leave();
  }

  /** Both grids side by side, bytes below; on a phone the grids one below the other. */
  layout() {
    const { width: w, height: h, u } = this.stage,
      rows = this.model.tiled
        ? Math.min(8, Math.max(4, this.model.own.totals.size))
        : this.model.own.totals.size,
      low = (30 + 26 * rows) * u,
      bytes = { panel: new BytesPanel(), box: { x: 0, y: h - low, w, h: low } };
    const crowded = h < LEAST_ROOM * u;
    if (!this.model.tiled) return [{ ...bytes, box: { x: 0, y: 0, w, h } }];
    const narrow = w < NARROW * 0.8,
      gap = 26 * u,
      room = crowded ? h : h - low - 14 * u,
      each = narrow ? { w, h: (room - gap) / 2 } : { w: (w - gap) / 2, h: room };
    return [0, 1]
      .map((n) => ({
        panel: new TouchedPanel(n),
        box: narrow ? { x: 0, y: n * (each.h + gap), ...each } : { x: n * (each.w + gap), y: 0, ...each },
      }))
      .concat(crowded ? [] : bytes);
  }

  draw() {
    if (!this.stage.pen) return;
    const { model } = this,
      position = Math.floor(this.at),
      last = model.longest;
    this.stage.paint({ model, position, beside: model.tiled ? model.beside(position) : 0 });
    const over = position > model.own.steps;
    this.source.show(position && !over ? Math.max(0, model.own.line[position - 1]) : 0);
    this.tell(`Tiles and bytes of ${model.own.name}`, {
      sentence: sentence(model, position),
      where: over ? `all ${last - 1} steps` : `step ${position} of ${last - 1}`,
      length: "counted in Triton's interpreter",
      part: position / last,
      position,
    });
  }

  passing(seconds) {
    return seconds * this.speed * Math.max(STEPS_PER_SECOND, this.model.longest / LONGEST);
  }
}

/** For tests `window.__watched` tells and moves the moment. */
const show = showing(WatchedPlayer, (player) => {
  window.__watched = {
    seek: (time) => player.seek(time),
    state: () => ({
      time: player.at,
      longest: player.model.longest,
      line: player.source.lit,
      ...player.controls.shown,
    }),
  };
});
export default show;
