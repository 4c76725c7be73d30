// One canvas, one clock: a user's kernel as it ran, beside FlashAttention-2, with its source.

import { cut } from "../canvas/cut.js";
import { clamp } from "../canvas/format.js";
import { NARROW } from "../canvas/stage.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { showing } from "../canvas/view.js";
import { BytesPanel, TouchedPanel } from "./panels.js";
import { Watched } from "./run.js";
import { Source } from "./source.js";
import { sentence } from "./story.js";

const STEPS_PER_SECOND = 4,
  LEAST_ROOM = 330, // units, below which bytes leave no room for the grids
  LONGEST = 40; // seconds from the start to the end, at the usual speed
const BAR = {
  label: "Your kernel, step by step",
  walk: ({ longest }) => Math.min(longest / STEPS_PER_SECOND, LONGEST),
  keys: [{ name: "r", told: "run the file again", act: () => ({ r: runAgain }) }],
  guide: {
    "striped, extra": "the mask hides all of it: wasted work",
    "striped, 2 ×": "visited more than once",
    "framed, wrong": "the first tile after which m, α, l or O of a row is wrong",
    "dashed, missing": "the mask leaves some of it, but nobody visited it",
    "line in a bar": "what FlashAttention-2 moves of that tensor",
    "wavy line": "a line with a finding, which stands below it",
  },
};

/** The page's own button: here while the picture has the focus, else the page hears the key itself. */
const runAgain = () => document.querySelector(".st-key-kernel_again button")?.click();

class WatchedPlayer extends TimedPlayer {
  static bar = BAR;
  static Model = Watched;

  load(part) {
    super.load(part);
    this.source ??= new Source(this.root);
    this.source.load(this.model);
  }

  fit(anyway = false) {
    super.fit(anyway);
    this.source?.keep();
  }

  eventBeside(by) {
    return Math.floor(this.at) + by;
  }

  /** Both grids side by side, bytes below; on a phone the grids one below the other. */
  layout() {
    const { width: w, height: h, u } = this.stage,
      { tiled, own } = this.model,
      all = { x: 0, y: 0, w, h },
      rows = clamp(own.totals.size, 4, 8),
      crowded = h < LEAST_ROOM * u,
      [upper, lower] = crowded ? [all] : cut(all, "y", 14 * u, [null, (30 + 26 * rows) * u]);
    if (!tiled) return [[BytesPanel, all]];
    const grids = cut(upper, w < NARROW * 0.8 ? "y" : "x", 26 * u, [null, null]); // the own run's, then FlashAttention-2's
    return [
      ...grids.map((box, number) => [TouchedPanel, box, { number }]),
      ...(lower ? [[BytesPanel, lower]] : []),
    ];
  }

  moment() {
    const { model } = this,
      { own, longest } = model,
      position = Math.floor(this.at),
      over = position > own.steps;
    return {
      view: { model, position, beside: model.tiled ? model.beside(position) : 0 },
      title: `Tiles and bytes of ${own.name}`,
      sentence: sentence(model, position),
      where: over ? `all ${longest - 1} steps` : `step ${position} of ${longest - 1}`,
      length: "counted in Triton's interpreter",
      part: position / longest,
      last: longest,
      position,
      line: position && !over ? Math.max(0, own.line[position - 1]) : 0,
    };
  }

  tell(title, { line, ...words }) {
    this.source.show(line);
    super.tell(title, words);
  }
}

export default showing(WatchedPlayer);
