// The animation loop of a moving picture.

const CALM = "(prefers-reduced-motion: reduce)";
const LONGEST = 0.25; // seconds that may pass between two pictures: a page that lay behind another does not leap

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
