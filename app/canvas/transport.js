// What a moving picture is played with: its buttons, its keys, its scrubber, help and full screen.

export const inFullScreen = () => document.fullscreenElement !== null;

/** Whether a part of the page has put its name on a key that goes to nothing else, see app/presenter/keys.js. */
const takenByPage = (key) =>
  [...document.querySelectorAll("[data-keys]")].some(({ dataset }) => JSON.parse(dataset.keys).includes(key));

export class Transport {
  /** `player` seeks, steps, toggles and goes faster; what is played adds its own buttons and keys. */
  constructor(root, player) {
    const selectors = [".now", ".stage canvas", ".help", "input[type=range]", ".where", ".length"],
      [now, canvas, help, slider, where, length] = selectors.map((selector) => root.querySelector(selector));
    Object.assign(this, { root, player, now, canvas, help, slider, where, length, shown: {} });
    this.actions = {
      start: () => player.seek(0),
      end: () => player.seek(Infinity),
      back: () => player.step(-1),
      forward: () => player.step(1),
      play: () => player.toggle(),
      full: () => this.fullScreen(),
      help: () => this.showHelp(this.help.hidden),
    };
    root.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) this.actions[button.dataset.do]();
      if (button && event.detail) root.focus({ preventScroll: true }); // so that Space plays, not the button clicked last
    });
    root.addEventListener("fullscreenchange", () => this.press("full", inFullScreen()));
    root.addEventListener("keydown", (event) => this.key(event));
    this.unfocused = (event) => {
      const nothingFocused = [document.body, document.documentElement].includes(event.composedPath()[0]);
      if (nothingFocused && root.isConnected && !takenByPage(event.key)) this.key(event);
    };
    window.addEventListener("keydown", this.unfocused, true);
  }

  release() {
    window.removeEventListener("keydown", this.unfocused, true);
  }

  /** Does what a key asks for, and keeps it from Streamlit's shortcuts. */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0],
      key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (target.matches?.("select") && key !== "Escape") return event.stopPropagation();
    if (target.matches?.("button") && [" ", "Enter"].includes(key)) return event.stopPropagation();
    const action = this.keyActions(event.shiftKey, target)[key];
    if (!action) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    action();
  }

  /** What each key does; `far` is whether Shift is held, `target` what has the focus. */
  keyActions(far, _target) {
    const { player, actions } = this,
      faster = () => player.faster(1),
      slower = () => player.faster(-1);
    return {
      " ": actions.play,
      Enter: actions.play,
      Home: actions.start,
      End: actions.end,
      f: actions.full,
      "?": actions.help,
      ArrowLeft: () => player.step(-1, far),
      ArrowRight: () => player.step(1, far),
      "+": faster,
      "=": faster,
      "-": slower,
      "−": slower,
    };
  }

  press(name, on) {
    this.root.querySelector(`.options [data-do="${name}"]`).setAttribute("aria-pressed", String(on));
  }

  showHelp(on) {
    this.help.hidden = !on;
    this.press("help", on);
  }

  fullScreen() {
    if (inFullScreen()) document.exitFullscreen();
    else this.root.requestFullscreen?.();
  }

  /** Words and the play button for a moment; only what differs is touched. */
  show(next) {
    const { root, shown } = this;
    if (shown.playing !== next.playing) {
      root.classList.toggle("playing", next.playing);
      root.querySelector(".play").setAttribute("aria-label", next.playing ? "Pause" : "Play");
      this.now.setAttribute("aria-live", next.playing ? "off" : "polite");
    }
    for (const [name, place] of [
      ["sentence", this.now],
      ["where", this.where],
      ["length", this.length],
    ]) {
      if (place && shown[name] !== next[name]) place.textContent = next[name];
    }
    if (shown.where !== next.where) this.slider.setAttribute("aria-valuetext", next.where);
    this.shown = next;
  }

  /** The scrubber at a position, of the last that there is. */
  scrub(position, last) {
    this.slider.value = position;
    this.slider.style.setProperty("--part", `${(100 * position) / Math.max(1, last)}%`);
  }
}
