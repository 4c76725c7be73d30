// The frame of a picture with a stage, and what it is played with: buttons, keys, scrubber, help and full screen.

import { capital } from "./format.js";

const ICONS = [
  ["start", "To the start", "To the start (Home)", '<path d="M3 3h2v10H3zM13 3v10L6 8z"/>'],
  ["back", "Step back", "Step back (←)", '<path d="M12 3v10L4 8z"/>'],
  [
    ...["play", "Play", "Play or pause (Space)"],
    '<path class="go" d="M5 3v10l8-5z"/><path class="halt" d="M4 3h3v10H4zM9 3h3v10H9z"/>',
  ],
  ["forward", "Step forward", "Step forward (→)", '<path d="M4 3v10l8-5z"/>'],
  ["end", "To the end", "To the end (End)", '<path d="M11 3h2v10h-2zM3 3v10l7-5z"/>'],
];
const SPEED = { name: "speed", label: "Speed", title: "Speed (+ and −)", choices: [] },
  SPEEDS = [0.25, 0.5, 1, 2, 4];
const LAST = [
  { name: "full", words: "Full screen", title: "Full screen (f)", pressed: true },
  { name: "help", words: "?", title: "Keys and reading guide (?)", label: "Help", pressed: true },
];

const icon = ([name, label, title, paths]) =>
  `<button data-do="${name}" class="${name}" aria-label="${label}" title="${title}"><svg viewBox="0 0 16 16">${paths}</svg></button>`;

/** A button, or where there is something to choose, a list. */
function optionOf({ name, words, title = "", label, choices, pressed }) {
  const about = `${title && `title="${title}"`} ${label ? `aria-label="${label}"` : ""}`;
  if (choices) return `<select data-is="${name}" ${about}></select>`;
  return `<button data-do="${name}" ${about} ${pressed ? 'aria-pressed="false"' : ""}>${words}</button>`;
}

/**
 * The HTML within a picture's root. Its `bar` has:
 * `label`: what the picture shows; `state`: what a player remembers beside its place, by name;
 * `speeds`, each `named`, seconds from a model's start to its end, `walk(model)`, and where Shift with an arrow leads,
 *   `far`, if they are not the usual ones;
 * `options`: buttons that `act(player, controls)` and lists to choose the player's property of that `name` from, with
 *   their `key`, the `words` on them or a `label`, and what is `told` of both;
 * `keys`: those without a button, with their `name`, what is `told` of them, and `act(player, far)`, actions by key;
 * `guide`: how the picture is read, by the name of what one sees. What is told may be a function of the model.
 */
export function frameOf({ options = [] }) {
  return `<p class="now" aria-live="polite" aria-atomic="true"></p>
<div class="stage"><canvas role="img"></canvas></div>
<div class="transport" role="toolbar" aria-label="Transport">
  <div class="buttons">${ICONS.map(icon).join("")}</div>
  <div class="scrub">
    <input type="range" min="0" max="10000" step="1" value="0" aria-label="Position">
    <div class="marks"><span class="where"></span><span class="length"></span></div>
  </div>
  <div class="options">${[SPEED, ...options, ...LAST].map(optionOf).join("")}</div>
</div>
<section class="help" role="dialog" aria-label="Keys and reading guide" hidden></section>`;
}

const listed = (title, entries) =>
  `<div><h3>${title}</h3><dl>${Object.entries(entries)
    .map(([name, words]) => `<dt>${name}</dt><dd>${words}</dd>`)
    .join("")}</dl></div>`;

const POINTER = { pointerdown: "press", pointermove: "point", pointerup: "lift" }; // what a player is told by which method

/** Whether a part of the page has put its name on a key that goes to nothing else, see app/presenter/keys.js. */
const takenByPage = (key) =>
  [...document.querySelectorAll("[data-keys]")].some(({ dataset }) => JSON.parse(dataset.keys).includes(key));

export const inFullScreen = () => document.fullscreenElement !== null;

export class Transport {
  constructor(root, player, bar) {
    const [now, canvas, help, slider, where, length] = [
      ...[".now", ".stage canvas", ".help", "input[type=range]", ".where", ".length"],
    ].map((selector) => root.querySelector(selector));
    Object.assign(this, { root, player, bar, now, canvas, help, slider, where, length });
    Object.assign(this, { shown: {}, choices: {} });
    this.actions = {
      start: () => player.seek(0),
      end: () => player.seek(Infinity),
      back: () => player.step(-1),
      forward: () => player.step(1),
      play: () => player.toggle(),
      full: () => (inFullScreen() ? document.exitFullscreen() : root.requestFullscreen?.()),
      help: () => this.showHelp(help.hidden),
    };
    for (const option of bar.options ?? [])
      if (option.choices) this.offer(option.name, option.choices, option.named);
      else this.actions[option.name] = () => option.act(player, this);
    this.offer("speed", bar.speeds ?? SPEEDS, bar.named ?? ((speed) => `${speed} ×`));
    this.listen();
  }

  listen() {
    const { root, player, slider, canvas } = this;
    root.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) this.actions[button.dataset.do]();
      if (button && event.detail) root.focus({ preventScroll: true }); // so that Space plays, not the button clicked last
    });
    root.addEventListener("fullscreenchange", () => this.press("full", inFullScreen()));
    root.addEventListener("keydown", (event) => this.key(event));
    slider.addEventListener("input", () => player.seek((slider.value / slider.max) * player.last));
    for (const [name, call] of Object.entries(POINTER))
      if (player[call]) canvas.addEventListener(name, (event) => player[call](event));
    this.unfocused = (event) => {
      const nothingFocused = [document.body, document.documentElement].includes(event.composedPath()[0]);
      if (nothingFocused && root.isConnected && !takenByPage(event.key)) this.key(event);
    };
    window.addEventListener("keydown", this.unfocused, true);
  }

  release() {
    window.removeEventListener("keydown", this.unfocused, true);
  }

  optionOf(name) {
    return this.root.querySelector(`.options :is([data-do="${name}"], [data-is="${name}"])`);
  }

  /** What there is to choose from under a name, and what each is called. */
  offer(name, choices, named = (_, n) => n) {
    const select = this.optionOf(name);
    select.replaceChildren(...choices.map((choice, n) => new Option(named(choice, n), choice)));
    select.onchange = () => this.player.choose(name, choices[select.selectedIndex]);
    this.choices[name] = choices;
    this.shown = {};
  }

  /** What the buttons do, and the help: keys of what is there beside how the picture of a model is read. */
  explain(model) {
    const { far = "a twentieth of the run", keys = [], options = [], guide } = this.bar;
    const of = (told) => (typeof told === "function" ? told(model) : told);
    for (const { name, key, told } of options)
      this.optionOf(name).title = capital(of(told)) + (key ? ` (${key})` : "");
    const there = ({ name, key }) => key && !this.optionOf(name).hidden;
    const all = {
      Space: "play or pause (Enter too)",
      "← →": "one step back, or forward",
      "Shift ← →": far,
      "Home End": "to the start, to the end",
      ...Object.fromEntries(keys.map(({ name, told }) => [name, told])),
      ...Object.fromEntries(options.filter(there).map(({ key, told }) => [key, of(told)])),
      "+ −": "faster, slower",
      f: "full screen",
      "?": "this help",
    };
    const read = guide ? listed("How to read it", guide) : "";
    this.help.innerHTML = `<div class="columns">${listed("Keys", all)}${read}</div>`;
  }

  /** Does what a key asks for, and keeps it from Streamlit's shortcuts. */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0],
      key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (target.matches?.("select") && key !== "Escape") return event.stopPropagation();
    if (target.matches?.("button") && [" ", "Enter"].includes(key)) return event.stopPropagation();
    const action = this.keyActions(event.shiftKey)[key];
    if (!action) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    action();
  }

  /** What each key does; `far` is whether Shift is held. */
  keyActions(far) {
    const { player, actions, bar, choices } = this,
      faster = () => player.faster(1),
      slower = () => player.faster(-1),
      next = (name, all) => player.choose(name, all[(all.indexOf(player[name]) + 1) % all.length]),
      own = (bar.keys ?? []).map(({ act }) => act(player, far));
    for (const { name, key } of bar.options ?? [])
      own.push({ [key]: actions[name] ?? (() => next(name, choices[name])) });
    return Object.assign(
      { " ": actions.play, Enter: actions.play, Home: actions.start, End: actions.end },
      { f: actions.full, "?": actions.help, Escape: () => this.showHelp(false) },
      { ArrowLeft: () => player.step(-1, far), ArrowRight: () => player.step(1, far) },
      { "+": faster, "=": faster, "-": slower, "−": slower },
      ...own,
    );
  }

  press(name, on) {
    this.optionOf(name).setAttribute("aria-pressed", String(on));
  }

  showHelp(on) {
    this.help.hidden = !on;
    this.press("help", on);
  }

  /** All for a moment; only what differs is touched. */
  show(next) {
    const { root, shown, slider, choices } = this,
      differs = (name) => shown[name] !== next[name];
    if (differs("last")) slider.max = next.last; // of places that are counted
    if (differs("part") || differs("last")) {
      slider.value = Math.round(next.part * slider.max);
      slider.style.setProperty("--part", `${(100 * slider.value) / slider.max}%`);
    }
    for (const name of Object.keys(choices).filter(differs))
      this.optionOf(name).selectedIndex = choices[name].indexOf(next[name]);
    for (const { name, pressed } of this.bar.options ?? [])
      if (pressed && differs(name)) this.press(name, next[name]);
    if (differs("playing")) {
      root.classList.toggle("playing", next.playing);
      root.querySelector(".play").setAttribute("aria-label", next.playing ? "Pause" : "Play");
      this.now.setAttribute("aria-live", next.playing ? "off" : "polite");
    }
    if (differs("sentence")) this.now.textContent = next.sentence;
    for (const name of ["where", "length"].filter(differs)) this[name].textContent = next[name];
    if (differs("where")) slider.setAttribute("aria-valuetext", next.where);
    this.shown = next;
  }
}
