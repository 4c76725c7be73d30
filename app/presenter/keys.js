// Keys that press buttons of the page: what they press is clicked, so that keys and buttons can never differ.
// They act where nothing else has the focus, and the element's data-keys tells the player to leave them alone.

import { MAIN } from "../canvas/streamlit.js";
import { showing } from "../canvas/view.js";

const SCROLL = 0.7; // of the page's height that a key moves it by
const ACTIONS = {
  "full screen": () =>
    document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen(),
  down: () => scroll(SCROLL),
  up: () => scroll(-SCROLL),
};
const PLAYER = ".player"; // it has keys of its own while it has the focus

function scroll(part) {
  const main = document.querySelector(MAIN);
  main.scrollBy({ top: part * main.clientHeight, behavior: "smooth" });
}

class Keys {
  constructor(parent) {
    this.host = parent.host;
    this.press = (event) => this.pressed(event);
  }

  /** `buttons` maps a key to the name of a button's container, or to one of ACTIONS. */
  update(buttons) {
    this.buttons = buttons;
    window.addEventListener("keydown", this.press, true); // once, however often; again after a release
    this.host.dataset.keys = JSON.stringify(Object.keys(buttons));
  }

  release() {
    window.removeEventListener("keydown", this.press, true);
    delete this.host.dataset.keys;
  }

  pressed(event) {
    if (!this.host.isConnected || event.ctrlKey || event.metaKey || event.altKey) return;
    const [target, ...around] = event.composedPath();
    if ([target, ...around].some((element) => element.matches?.(PLAYER))) {
      if (event.key === "Escape") target.blur(); // the keys are the page's again; the player hears Escape too
      return;
    }
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key,
      name = this.buttons[key];
    if (
      !name ||
      target.matches?.("input, textarea, select, [role=slider], [role=combobox], [contenteditable=true]")
    )
      return;
    if (target.matches?.("button, a") && [" ", "Enter"].includes(key)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (name in ACTIONS) ACTIONS[name]();
    else document.querySelector(`.st-key-${name} button:not(:disabled)`)?.click();
  }
}

export const keys = showing(Keys);
