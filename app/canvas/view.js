// What all pictures in the browser share: made once for a place on the page, drawn anew as room, theme and data change
// and as its clock moves, and how they hear from Streamlit.

import { readTheme, wear } from "./theme.js";

const CALM = "(prefers-reduced-motion: reduce)";
const LONGEST = 0.25; // seconds that may pass between two pictures: a page that lay behind another does not leap
const STEP = /[#&]step=(\d{1,5})\b/; // of a file that is to be opened there

/** The animation loop of a moving picture. */
export class Clock {
  /**
   * `move(seconds, now)` moves the picture on by the seconds since the last one;
   * `pause` is how many ms a picture stands at least for those who ask for less motion.
   */
  constructor(root, move, pause) {
    Object.assign(this, { root, move, pause, playing: false, before: null, pending: 0 });
    this.calm = matchMedia(CALM);
  }

  start() {
    Object.assign(this, { playing: true, before: null });
    this.ask();
  }

  stop() {
    this.playing = false;
  }

  ask() {
    if (!this.pending) this.pending = requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.pending = 0;
    if (!this.playing || !this.root.isConnected) return;
    const since = this.before === null ? 0 : now - this.before;
    if (this.before === null || !this.calm.matches || since >= this.pause) {
      this.before = now;
      this.move(Math.min(LONGEST, since / 1000), now);
    }
    if (this.playing) this.ask();
  }
}

/** A picture has `update(data)`; `fit()`, which draws it in the room that there is; and `advance(seconds, now)`. */
export class View {
  /** `canvas` is what it is drawn in, `pause` that of a calm clock. */
  constructor(root, canvas, pause) {
    this.root = root;
    this.clock = new Clock(root, (seconds, now) => this.advance(seconds, now), pause);
    this.onResize = () => this.fit();
    this.observer = new ResizeObserver(this.onResize);
    this.observer.observe(canvas);
    window.addEventListener("resize", this.onResize);
    document.addEventListener("fullscreenchange", this.onResize);
  }

  release() {
    this.clock.stop();
    this.controls?.release();
    this.observer.disconnect();
    window.removeEventListener("resize", this.onResize);
    document.removeEventListener("fullscreenchange", this.onResize);
  }

  /** Wears the theme that the page has; whether it is another than before. */
  dress(palettes) {
    const theme = readTheme(this.root, palettes),
      other = JSON.stringify(theme) !== JSON.stringify(this.theme);
    if (other) wear(this.root, theme);
    this.theme = theme;
    return other;
  }
}

/**
 * What Streamlit calls whenever the data or the theme change, without a word that the call before is over: what is
 * shown in a shadow root, a `Shown` with `update(data)` and `release()`, is made once.
 */
export function showing(Shown) {
  const views = new WeakMap();
  return ({ data, parentElement, setStateValue }) => {
    if (!data) return undefined;
    const there = views.get(parentElement);
    const view = there ?? new Shown(parentElement);
    views.set(parentElement, view);
    view.setStateValue = setStateValue; // by which it tells the page something; a file has none
    view.update(data);
    if (!there && !setStateValue)
      globalThis.addEventListener?.("message", ({ source, data: sent }) => {
        if (source === parent && sent?.moment) view.follow?.(sent.moment); // of a room's phone
        if (source !== parent || !sent?.beside) return; // of a file beside this one, whose clock it is now
        view.clock?.stop();
        view.meet?.(sent.beside);
      });
    const opened = there || setStateValue ? null : STEP.exec(location.hash);
    if (opened) view.seek(0);
    for (let step = 0; step < Number(opened?.[1] ?? 0); step += 1) view.step(1);
    return () => view.release();
  };
}
