// Tells the server how large the page's type is here, in pixels: it draws the charts to match.

import { showing } from "../canvas/showing.js";

const SETTLED = 300; // ms after the type's last change

class Room {
  constructor(parent) {
    this.parent = parent;
    this.letter = document.createElement("div"); // as wide as the type: styles may come later than this does
    this.letter.style.cssText = "position: absolute; width: 1rem; visibility: hidden";
    this.observer = new ResizeObserver(() => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.tell(), SETTLED);
    });
  }

  update(told) {
    this.told ??= told;
    this.parent.append(this.letter);
    this.observer.observe(this.letter);
    this.tell();
  }

  tell() {
    const type = Math.round(parseFloat(getComputedStyle(document.documentElement).fontSize));
    if (type === this.told) return;
    this.told = type;
    this.setStateValue("type", type);
  }

  release() {
    clearTimeout(this.timer);
    this.observer.disconnect();
    this.letter.remove();
  }
}

export default showing(Room);
