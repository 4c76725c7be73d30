// A moving picture drawn off the screen, for files: one moment or the whole run, with its words drawn in.

import { clamp } from "./format.js";
import { Pen } from "./pen.js";
import { Stage } from "./stage.js";
import { SANS } from "./theme.js";

const SIZE = { width: 1152, height: 720 }, // px, and of a film for a hall 16 to 9
  HALL = { width: 1280, height: 720 };
const TWO_LINES = 1.85; // of a line, with room for words that do not break
const LONGEST = 25, // seconds that a film plays at most, SHORTEST at least
  SHORTEST = 4;

/** A player's run drawn on a canvas of its own, of one size whatever the window's, while the player goes on. */
export class Film {
  /** `dpr` device pixels in each pixel; `hall` for large type. */
  constructor(player, { dpr = 1, hall = false } = {}) {
    const { width, height } = hall ? HALL : SIZE,
      type = hall ? player.hallType : 1,
      [edge, head, foot] = [24, 74, 40].map((px) => px * type),
      w = width - 2 * edge,
      h = height - head - foot,
      options = { willReadFrequently: true };
    Object.assign(this, { width, height, type, edge, head, foot });
    this.stage = new Stage(player.root, document.createElement("canvas"), options);
    this.stage.resize(w, h, dpr, hall ? type : Math.min(w / 1130, (h + 110) / 770));
    this.player = this.unseen(player);
    this.stage.place(this.player.layout(), player.model, player.theme);
    this.canvas = document.createElement("canvas");
    [this.canvas.width, this.canvas.height] = [width * dpr, height * dpr];
    this.ctx = this.canvas.getContext("2d", options);
    this.ctx.scale(dpr, dpr);
    this.pen = new Pen(this.ctx, player.theme, type);
  }

  /** The same run and what is chosen, at a moment and on a clock of its own. */
  unseen(player) {
    const own = Object.create(player),
      clock = { playing: false, calm: { matches: false }, stop() {} },
      ours = { stage: this.stage, clock, now: 0, said: "", draw() {} };
    for (const [name, value] of Object.entries(ours))
      Object.defineProperty(own, name, { value, writable: true });
    return own;
  }

  /** So many pictures per second of the whole run, `count` of them; faster than it plays where it lasts too long. */
  play(rate) {
    const { player } = this;
    let before = 0;
    while (this.seconds > LONGEST && player.passing(1) > before) {
      before = player.passing(1);
      player.faster(1);
    }
    player.clock.playing = true;
    Object.assign(this, { rate, count: Math.round(clamp(this.seconds, SHORTEST, LONGEST) * rate) + 1 });
  }

  get seconds() {
    return this.player.last / this.player.passing(1);
  }

  /** Draws the nth picture of those that are played; the first and the last say their own words. */
  show(n) {
    if (n % (this.count - 1) === 0) this.player.said = "";
    this.player.now = (1000 * n) / this.rate;
    this.paint((this.player.last * n) / (this.count - 1));
  }

  /** Draws a position of the run. */
  paint(position) {
    const { player, stage, ctx, pen, width, height, type, edge, head, foot } = this,
      { theme } = player;
    player.at = position;
    const { view, sentence, where, length } = player.moment();
    stage.paint({ ...view, still: true });
    ctx.fillStyle = theme.ground;
    ctx.fillRect(0, 0, width, height);
    this.headline(sentence);
    ctx.drawImage(stage.canvas, edge, head, stage.width, stage.height);
    const y = height - foot + 14 * type,
      w = width - 2 * edge;
    pen.box(edge, y, w, 4 * type, theme.cell, 2);
    pen.box(edge, y, w * player.fraction, 4 * type, theme.S, 2);
    const below = { size: 12, color: theme.muted };
    pen.text(where, edge, y + 19 * type, below);
    pen.right(length, width - edge, y + 19 * type, below);
  }

  /** Two lines at most, smaller where the words are many. */
  headline(words) {
    const { ctx, pen, type, edge } = this,
      room = this.width - 2 * edge,
      font = (size) => `650 ${size * type}px ${SANS}`;
    ctx.font = font(20);
    const size = 20 * Math.min(1, (TWO_LINES * room) / ctx.measureText(words).width),
      style = { size, weight: 650 };
    ctx.font = font(size);
    let line = "",
      y = 30 * type;
    for (const word of words.split(" ")) {
      if (y < 50 * type && line && ctx.measureText(`${line} ${word}`).width > room) {
        pen.text(line, edge, y, style);
        [line, y] = [word, y + 25 * type];
      } else line = line ? `${line} ${word}` : word;
    }
    pen.text(line, edge, y, { ...style, room });
  }

  /** What is drawn, a pixel a number. */
  pixels() {
    const { width, height } = this.canvas;
    return new Uint32Array(this.ctx.getImageData(0, 0, width, height).data.buffer);
  }
}
