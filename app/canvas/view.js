// What all pictures in the browser share: made once for a place on the page, drawn anew as room, theme and data change.

import { Clock } from "./clock.js";
import { Stage } from "./stage.js";
import { readTheme, wear } from "./theme.js";
import { equalBytes } from "./unpack.js";

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
 * A picture on a stage, of one block of bytes: `load(bytes)` sets `bytes` and `model` with its `palettes`, `layout()`
 * has its panels in their boxes, `leave()` forgets the pointer, and `draw()` paints.
 */
export class StageView extends View {
  constructor(root, pause) {
    const stage = new Stage(root);
    super(root, stage.canvas, pause);
    this.stage = stage;
  }

  /** New data or a new theme: the picture changes within this task; whether the data are new. */
  update(bytes) {
    const renewed = !this.bytes || !equalBytes(bytes, this.bytes);
    if (renewed) this.load(bytes);
    if (this.dress(this.model.palettes) || renewed) this.fit(true);
    return renewed;
  }

  /** Lays out and draws everything anew where the room has changed, or anyway; whether it did. */
  fit(anyway = false) {
    if (!this.model || !(this.stage.measure() || (anyway && this.stage.u))) return false;
    this.stage.place(this.layout(), this.model, this.theme);
    this.leave();
    this.draw();
    return true;
  }
}
