// Buttons, keys, scrubber, pointer and help: everything that is not the picture.

const PACES = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]; // microseconds in a second
const paceName = (pace) => `${pace < 1000 ? `${pace} µs` : `${pace / 1000} ms`} a second`;
const MARKS = 10000; // positions of the scrubber
const KEYS = [
  ["Space", "play or pause"],
  ["← →", "to the block that starts or ends before, or next"],
  ["Shift ← →", "a twentieth of the run"],
  ["Home End", "to the start, to the end"],
  ["↑ ↓", "another head (Shift: ten further)"],
  ["+ −", "faster, slower"],
  ["c", "colour by query block, head or wave"],
  ["0", "the whole run; the wheel zooms, dragging moves"],
  ["f", "full screen"],
  ["?", "this help"],
];
const GUIDE = [
  ["line", "one SM; where it holds several blocks at once, they share its line"],
  ["bar", "one block of work, from its start to its end"],
  ["pale", "still to come"],
  ["tail", "from when the first SM has nothing left to do until the end"],
  ["wave", "how often the block's place on its SM had been filled before"],
  ["tiles", "a block's visits are drawn at an even pace between its start and its end"],
];

class GpuControls {
  constructor(root, player) {
    Object.assign(this, { root, player, shown: {} });
    const find = (selector) => root.querySelector(selector);
    Object.assign(this, { now: find(".now"), canvas: find(".stage canvas"), slider: find("input"), where: find(".where"), help: find(".help") });
    Object.assign(this, { length: find(".length"), pace: find('[data-is="speed"]'), colouring: find('[data-is="colouring"]') });
    this.pace.append(...PACES.map((pace) => new Option(paceName(pace), pace)));
    this.colouring.append(...Object.entries(COLOURINGS).map(([name, [words]]) => new Option(`by ${words}`, name)));
    this.actions = {
      start: () => player.seek(0), end: () => player.seek(Infinity), back: () => player.step(-1), forward: () => player.step(1),
      play: () => player.toggle(), whole: () => player.zoomOut(), full: () => this.fullScreen(), help: () => this.showHelp(this.help.hidden),
    };
    this.help.innerHTML = helpPage(KEYS, GUIDE);
    this.listen();
  }

  listen() {
    const { root, player, canvas } = this;
    root.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) this.actions[button.dataset.do]();
      if (button && event.detail) root.focus({ preventScroll: true }); // so that Space plays, not the button clicked last
    });
    this.slider.addEventListener("input", () => player.seek((Number(this.slider.value) / MARKS) * player.model.longest));
    this.pace.addEventListener("change", () => player.setPace(Number(this.pace.value)));
    this.colouring.addEventListener("change", () => player.setColouring(this.colouring.value));
    canvas.addEventListener("pointerdown", (event) => player.press(event));
    canvas.addEventListener("pointermove", (event) => player.point(event));
    canvas.addEventListener("pointerup", (event) => player.lift(event));
    canvas.addEventListener("pointerleave", () => player.leave());
    canvas.addEventListener("wheel", (event) => player.zoom(event), { passive: false });
    canvas.addEventListener("dblclick", () => player.zoomOut());
    this.keys = new OwnKeys(root, (far) => this.keyActions(far));
  }

  release() {
    this.keys.release();
  }

  /** What each key does. */
  keyActions(far) {
    const { player } = this;
    return {
      " ": this.actions.play, Enter: this.actions.play, Home: this.actions.start, End: this.actions.end, 0: this.actions.whole, f: this.actions.full,
      ArrowLeft: () => player.step(-1, far), ArrowRight: () => player.step(1, far),
      ArrowUp: () => player.moveHead(far ? -10 : -1), ArrowDown: () => player.moveHead(far ? 10 : 1),
      "+": () => player.faster(1), "=": () => player.faster(1), "-": () => player.faster(-1), "−": () => player.faster(-1),
      c: () => player.nextColouring(), "?": this.actions.help, Escape: () => this.showHelp(false),
    };
  }

  showHelp(on) {
    this.help.hidden = !on;
    this.root.querySelector('[data-do="help"]').setAttribute("aria-pressed", String(on));
  }

  fullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.root.requestFullscreen?.();
  }

  /** Slider, words and buttons for a moment; only what differs is touched. */
  show(next) {
    const { root, shown } = this;
    if (shown.playing !== next.playing) {
      root.classList.toggle("playing", next.playing);
      root.querySelector(".play").setAttribute("aria-label", next.playing ? "Pause" : "Play");
      this.now.setAttribute("aria-live", next.playing ? "off" : "polite");
    }
    for (const [name, place] of [["sentence", this.now], ["where", this.where], ["length", this.length]]) {
      if (shown[name] !== next[name]) place.textContent = next[name];
    }
    if (shown.part !== next.part) {
      this.slider.value = Math.round(next.part * MARKS);
      this.slider.style.setProperty("--part", `${100 * next.part}%`);
      this.slider.setAttribute("aria-valuetext", next.where);
    }
    if (shown.pace !== next.pace) this.pace.value = next.pace;
    if (shown.colouring !== next.colouring) this.colouring.value = next.colouring;
    this.shown = next;
  }
}
