// What all pictures in the browser share: made once for a place on the page, drawn anew as room, theme and data change.

import { Clock } from "./clock.js";
import { readTheme, wear } from "./theme.js";

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
