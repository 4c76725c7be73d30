// What a player's film becomes: one moment as a PNG, the run as a GIF, or as an MP4 for slides.

import { commonColours, GifEncoder } from "./gif.js";
import { filmOf } from "./mp4.js";

const GIF_RATE = 10, // pictures a second
  FILM_RATE = 30;
const STANDS = 2; // seconds that the last picture stands
const PALETTE_PICTURES = 6; // that a GIF's palette is made from
const BREATH = 30; // ms of work before the page may do something else

/** Tells `progress` the share that is done and lets the page answer; unlike a timer it is not slowed down behind another. */
function resting(count, progress) {
  let rested = performance.now();
  return async (n) => {
    if (performance.now() - rested < BREATH) return;
    progress?.((n + 1) / count);
    await new Promise((done) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = done;
      port2.postMessage(0);
    });
    rested = performance.now();
  };
}

async function gif(film, progress) {
  film.play(GIF_RATE);
  const { count, canvas } = film,
    rest = resting(count, progress);
  const samples = Array.from({ length: PALETTE_PICTURES }, (_, n) => {
    film.show(Math.round((n * (count - 1)) / (PALETTE_PICTURES - 1)));
    return film.pixels();
  });
  const made = new GifEncoder(canvas.width, canvas.height, commonColours(samples));
  for (let n = 0; n < count; n++) {
    film.show(n);
    made.add(film.pixels(), 100 / GIF_RATE + 100 * STANDS * (n === count - 1));
    await rest(n);
  }
  return made.finish();
}

async function mp4(film, progress) {
  film.play(FILM_RATE);
  const count = film.count + STANDS * FILM_RATE,
    draw = (n) => n < film.count && film.show(n);
  return filmOf(film.canvas, { count, rate: FILM_RATE, draw, rest: resting(count, progress) });
}

/** Each kind of file of a player, by what a button says. */
export function filmFiles(player) {
  const { film } = player.takeHome;
  return {
    PNG: async () => {
      const still = film({ dpr: 2 });
      still.paint(player.at);
      return new Promise((done) => still.canvas.toBlob(done, "image/png"));
    },
    GIF: (progress) => gif(film(), progress),
    MP4: (progress) => mp4(film({ hall: true, dpr: 1.5 }), progress),
    "MP4 4K": (progress) => mp4(film({ hall: true, dpr: 3 }), progress),
  };
}

export default filmFiles;
