// Pictures that move from one frame to the next, beside the numbers of the frame that is nearest.

import { clamp, eased } from "./format.js";
import { NARROW } from "./stage.js";
import { TimedPlayer } from "./timed_player.js";
import { unpack } from "./unpack.js";

export const STATE = { speed: 1, goal: null }; // the frame that a key leads to
const FRAME = 2.5, // seconds from one frame to the next,
  GLIDE = 1; // and where a key asks for that
const ROW = 56,
  COLUMN = 190, // units of a fact: its height and its width at least
  MONO_WIDE = 0.62, // of its size, that a letter takes
  LOW = 50; // and a height that leaves room for small type alone

/** A payload whose header has `frames`, each with a `sentence` and `facts`, and a `note` on all of them. */
export class Frames {
  constructor(bytes) {
    const { header, arrays } = unpack(bytes);
    Object.assign(this, header, { arrays });
    this.longest = this.frames.length - 1;
  }

  /** The frame at a place, the next, and how far it is on its way there. */
  at(place) {
    const n = clamp(Math.floor(place), 0, this.longest);
    return { n, now: this.frames[n], next: this.frames[n + 1], part: eased(place - n) };
  }
}

class FactsPanel {
  paint(pen, box, { at }) {
    const { model, u, theme } = this,
      { facts } = model.frames[Math.round(at)],
      columns = box.h < ROW * facts.length * u && box.w > 2 * COLUMN * u ? 2 : 1,
      wide = box.w / columns,
      line = Math.min(76 * u, (box.h - 20 * u) / Math.ceil(facts.length / columns));
    const [size, below] = line < LOW * u ? [17, 19] : [24, 27];
    facts.forEach(([name, words, color], n) => {
      const x = box.x + (n % columns) * wide,
        y = box.y + (Math.floor(n / columns) + 0.25) * line;
      pen.text(name, x, y, { size: 14, color: theme.muted, room: wide });
      const fits = Math.min(size, (wide / u - 12) / (MONO_WIDE * words.length)); // for numbers of many digits
      pen.text(words, x, y + below * u, { size: fits, weight: 700, mono: true, color: theme[color] });
    });
    pen.note(model.note, box.x, box.y + box.h - 6 * u, { room: box.w });
  }
}

/** A player with a `static Picture`, a panel for the left, and in its bar STATE and `frame`, what one frame is called. */
export class FramesPlayer extends TimedPlayer {
  static Model = Frames;

  /** A key leads to the next frame in one movement, or at once for those who ask for less motion. */
  step(by, far = false) {
    const from = this.goal ?? this.at,
      beside = by > 0 ? Math.floor(from) + 1 : Math.ceil(from) - 1,
      goal = clamp(far ? by * this.last : beside, 0, this.last);
    if (this.clock.calm.matches) this.clock.stop();
    if (this.clock.calm.matches) return this.seek(goal);
    this.goal = goal;
    this.clock.start();
  }

  seek(at) {
    this.goal = null;
    super.seek(at);
  }

  toggle() {
    this.goal = null;
    super.toggle();
  }

  /** The clock's first picture is of no time at all: at the end of the run it would end the way back. */
  advance(seconds) {
    if (seconds || this.goal === null) super.advance(seconds);
  }

  passing(seconds) {
    if (this.goal === null) return (seconds * this.speed) / FRAME;
    const left = this.goal - this.at,
      most = (seconds * this.speed) / GLIDE;
    if (Math.abs(left) > most) return Math.sign(left) * most;
    this.goal = null;
    this.clock.stop();
    return left;
  }

  layout() {
    const { width: w, height: h, u } = this.stage,
      { Picture } = this.constructor,
      { wide } = this.model,
      narrow = w < NARROW,
      side = narrow ? w : wide ? 0.66 * w : Math.min(0.6 * w, h),
      facts = narrow
        ? { x: 0, y: 0.52 * h, w, h: 0.48 * h }
        : { x: side + 40 * u, y: 20 * u, w: w - side - 40 * u, h: h - 20 * u };
    return [
      [Picture, { x: 0, y: 0, w: side, h: narrow ? 0.5 * h : h }, { narrow }],
      [FactsPanel, facts],
    ];
  }

  moment() {
    const { at, model } = this,
      { frame } = this.constructor.bar,
      n = Math.round(at);
    return {
      view: { at },
      sentence: model.frames[n].sentence,
      where: `${frame} ${n + 1} of ${model.frames.length}`,
      length: "",
    };
  }
}
