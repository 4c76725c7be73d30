// The player's pictures as files: one moment as a PNG, the whole run as a GIF, with their words drawn in.

import { clamp } from "../canvas/format.js";
import { Pen } from "../canvas/pen.js";
import { Stage } from "../canvas/stage.js";
import { SANS } from "../canvas/theme.js";
import { commonColours, GifEncoder } from "./gif.js";
import { layoutOf } from "./layout.js";
import { wordsOf } from "./narrator.js";
import { visitsCsv } from "./steps_table.js";
import { blockSentence } from "./story.js";

const FILM = { width: 1152, height: 720, edge: 24, head: 74, foot: 40 }; // px
const MOST_PICTURES = 256;
const FILM_SECONDS = 20,
  STAND_SECONDS = 2; // how long a GIF plays, and its last picture stands
const PALETTE_PICTURES = 6; // that the palette is made from
const BREATH = 30; // ms of work before the page may do something else

/** A player's run drawn on a canvas of its own, of one size whatever the window's, while the player goes on. */
class Film {
  constructor(player, dpr = 1) {
    const { model, run, theme, race, pinned, slot, stage, speeds } = player,
      clock = { playing: false },
      own = { model, run, theme, race, pinned, slot, speeds, clock };
    this.player = Object.assign(Object.create(player), own); // never seen: the same run and row, at a moment of its own
    const { width, height, edge, head, foot } = FILM,
      w = width - 2 * edge,
      h = height - head - foot;
    const blank = () => document.createElement("canvas"),
      read = { willReadFrequently: true };
    this.stage = new Stage(stage.root, blank(), read);
    this.stage.resize(w, h, dpr, Math.min(w / 1130, (h + 110) / 770));
    this.stage.place(layoutOf(this.stage, model, race), model, theme);
    this.canvas = blank();
    [this.canvas.width, this.canvas.height] = [width * dpr, height * dpr];
    this.ctx = this.canvas.getContext("2d", read);
    this.ctx.scale(dpr, dpr);
    this.pen = new Pen(this.ctx, theme, 1);
  }

  /** Draws a position of the run; where a film `leaps` over steps, its sentence is that of the whole block. */
  paint(position, leaps = false) {
    const { player, stage, ctx, pen } = this,
      { theme, model, run } = player,
      { width, height, edge, head, foot } = FILM;
    player.at = position;
    stage.paint({ ...player.view, still: true });
    const { sentence, where, length } = wordsOf(player, player.stepNow);
    ctx.fillStyle = theme.ground;
    ctx.fillRect(0, 0, width, height);
    this.headline(leaps && !player.race ? blockSentence(model, run, player.stepNow) : sentence);
    ctx.drawImage(stage.canvas, edge, head, stage.width, stage.height);
    const y = height - foot + 14,
      w = width - 2 * edge;
    pen.box(edge, y, w, 4, theme.cell, 2);
    pen.box(edge, y, (w * position) / player.last, 4, theme.S, 2);
    pen.text(where, edge, y + 19, { size: 12, color: theme.muted });
    pen.right(length, width - edge, y + 19, { size: 12, color: theme.muted });
  }

  /** Two lines at most. */
  headline(words) {
    const { ctx, pen } = this,
      room = FILM.width - 2 * FILM.edge,
      style = { size: 20, weight: 650 };
    ctx.font = `650 20px ${SANS}`;
    let line = "",
      y = 30;
    for (const word of words.split(" ")) {
      if (y < 50 && line && ctx.measureText(`${line} ${word}`).width > room) {
        pen.text(line, FILM.edge, y, style);
        [line, y] = [word, y + 25];
      } else line = line ? `${line} ${word}` : word;
    }
    pen.text(line, FILM.edge, y, { ...style, room });
  }

  /** What is drawn, a pixel a number. */
  pixels() {
    const { width, height } = this.canvas;
    return new Uint32Array(this.ctx.getImageData(0, 0, width, height).data.buffer);
  }
}

/** The pictures of a GIF of a run to position `last`: how many, at which positions, for how many hundredths of a second. */
export function reelOf(last) {
  const count = Math.min(MOST_PICTURES, last + 1),
    each = clamp(Math.round((100 * FILM_SECONDS) / count), 6, 50);
  return {
    count,
    at: (n) => (last * n) / (count - 1),
    hundredths: (n) => (n === count - 1 ? each + 100 * STAND_SECONDS : each),
  };
}

/** The run as a GIF; `progress` is told the share that is done, `signal` may abort it. */
async function makeGif(player, progress, signal) {
  const film = new Film(player),
    { last } = film.player,
    { count, at, hundredths } = reelOf(last);
  const samples = Array.from({ length: PALETTE_PICTURES }, (_, n) => {
    film.paint(at(Math.round((n * (count - 1)) / (PALETTE_PICTURES - 1))));
    return film.pixels();
  });
  const gif = new GifEncoder(film.canvas.width, film.canvas.height, commonColours(samples));
  let rested = performance.now();
  for (let n = 0; n < count; n++) {
    signal?.throwIfAborted();
    const position = film.player.race ? at(n) : Math.round(at(n));
    film.paint(position, last >= 2 * count);
    gif.add(film.pixels(), hundredths(n));
    if (performance.now() - rested < BREATH) continue;
    progress?.((n + 1) / count);
    await breath();
    rested = performance.now();
  }
  return gif.finish();
}

/** Lets the page answer; unlike a timer it is not slowed down where the page lies behind another. */
function breath() {
  return new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = done;
    port2.postMessage(0);
  });
}

/** What the player's element offers to whoever makes files of the page. */
export function takeHome(player) {
  function png() {
    const film = new Film(player, 2);
    film.paint(player.at);
    return new Promise((done) => film.canvas.toBlob(done, "image/png"));
  }
  return {
    title: "Player: picture, animation, tile visits",
    labels: { PNG: "Player's picture", GIF: "Player's run", CSV: "Player's tile visits" },
    name: () => `attention-${player.race ? "race" : player.run.name}`,
    link: () => player.link(),
    files: {
      PNG: png,
      GIF: (progress, signal) => makeGif(player, progress, signal),
      CSV: () => visitsCsv(player),
    },
  };
}
