// What the pointer is on, told beside it: the tip moves only from thing to thing, not with the pointer.

import { clamp } from "./format.js";

const AWAY = 10; // px between a thing and its tip

export class Tip {
  constructor(root) {
    [this.aim, this.tip] = [".aim", ".tip"].map((selector) => root.querySelector(selector));
  }

  hide() {
    this.aim.hidden = this.tip.hidden = true;
    this.told = "";
  }

  /** Frames a box of a stage and says `words()` beside it, lines of which the first is a title; a tip that stands is not made again. */
  show(stage, box, words) {
    if (this.told === box.join()) return;
    const [x, y, w, h] = box,
      [title, ...lines] = words();
    this.told = box.join();
    this.tip.innerHTML = `<b>${title}</b>${lines.join("<br>")}`;
    this.aim.hidden = this.tip.hidden = false;
    place(this.aim, { left: x - 2, top: y - 2, width: w + 4, height: h + 4 });
    const { offsetWidth, offsetHeight } = this.tip,
      right = x + w + AWAY;
    const left = right + offsetWidth <= stage.width ? right : Math.max(0, x - AWAY - offsetWidth);
    place(this.tip, { left, top: clamp(y - AWAY, 0, Math.max(0, stage.height - offsetHeight)) });
  }
}

function place(element, sizes) {
  for (const [name, size] of Object.entries(sizes)) element.style[name] = `${size}px`;
}
