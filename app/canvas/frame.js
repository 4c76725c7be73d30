// The frame of a picture with a stage: the sentence above it, the bar below, and its help.

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
const OPTIONS = [
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
 * `label`: what the picture shows; `state`: what a player remembers beside its place, by name; `pause`: how many ms a
 *   picture stands for those who ask for less motion; `slider`: what the scrubber moves in, of so many `steps`;
 * `speeds`, each `named`; `arrows` and `far`: where the arrow keys lead, alone and with Shift;
 * `options`: buttons that `act(player, controls)` and lists to choose the player's property of that `name` from, with
 *   their `key`, the `words` on them or a `label`, and what is `told` of both;
 * `keys`: those without a button, with their `name`, what is `told` of them, and `act(player, far)`, actions by key;
 * `guide`: how the picture is read, by the name of what one sees. It and what is told may be a function of the model.
 */
export function frameOf({ slider, steps = 10000, options = [] }) {
  const speed = { name: "speed", label: "Speed", title: "Speed (+ and −)", choices: [] };
  return `<p class="now" aria-live="polite" aria-atomic="true"></p>
<div class="stage"><canvas role="img"></canvas><div class="aim" hidden></div><div class="tip" aria-hidden="true" hidden></div></div>
<div class="transport" role="toolbar" aria-label="Transport">
  <div class="buttons">${ICONS.map(icon).join("")}</div>
  <div class="scrub">
    <input type="range" min="0" max="${steps}" step="1" value="0" aria-label="${slider}">
    <div class="marks"><span class="where"></span><span class="length"></span></div>
  </div>
  <div class="options">${[speed, ...options, ...OPTIONS].map(optionOf).join("")}</div>
</div>
<section class="help" role="dialog" aria-label="Keys and reading guide" hidden></section>`;
}

/** The keys and the reading guide, side by side. */
export function helpPage(keys, guide) {
  const list = (title, entries) =>
    `<div><h3>${title}</h3><dl>${Object.entries(entries)
      .map(([name, words]) => `<dt>${name}</dt><dd>${words}</dd>`)
      .join("")}</dl></div>`;
  return `<div class="columns">${list("Keys", keys)}${list("How to read it", guide)}</div>`;
}
