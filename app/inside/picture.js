// The lanes as an SVG: copies, then each warp group with its products above its softmax, then what is busy at all.

import { capital, duration, roundStep, subscript } from "../canvas/format.js";
import { merged } from "../canvas/spans.js";
import { MONO, mix, SANS } from "../canvas/theme.js";

export const ROW = 23; // pixels, as all of these
const GAP = 14,
  TOP = 24,
  MIDDLE = 15.5; // of a text's baseline in its row

const NARROW_PICTURE = 640;

/** Where the time axis begins, at a width. */
export const leftOf = (width) => (width < NARROW_PICTURE ? 96 : 176);

/** Text, escaped. */
const escaped = (words) => String(words).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** The picture's rows with their places: {y, label, title, color?, marks} for lanes, {spans} for what is busy. */
export function placedRows(data) {
  const rows = [];
  let y = TOP;
  data.lanes.forEach((lane) => {
    lane.rows.forEach((label, n) => {
      const marks = lane.marks.filter(([operation]) => data.operations[operation].row === label);
      rows.push({ y, label, title: n ? "" : lane.name, short: n ? "" : lane.short, marks });
      y += ROW + 2;
    });
    y += GAP;
  });
  const groups = data.lanes.slice(1).flatMap((lane) => lane.marks);
  for (const [short, color, busy] of data.busy) {
    const marks = groups.filter(([operation]) => busy.includes(operation)),
      spans = merged(marks.map(([, , start, end]) => [start, end]));
    rows.push({ y, label: "", title: `${short} busy`, short, color, spans });
    y += ROW + 3;
  }
  return { rows, height: y + 19 };
}

/** The whole picture at a width in units, each of `u` pixels: larger for a room. */
export function pictureOf(data, width, theme, u) {
  const left = leftOf(width),
    { rows, height } = placedRows(data),
    scale = (width - left - 8) / data.seconds;
  const x = (seconds) => left + seconds * scale,
    parts = [];
  for (
    let tick = 0, step = roundStep(data.seconds, (width - left) / 95);
    tick <= data.seconds;
    tick += step
  ) {
    parts.push(
      `<line x1="${x(tick)}" x2="${x(tick)}" y1="${TOP - 6}" y2="${height - 18}" stroke="${theme.line}"/>`,
    );
    parts.push(
      label(x(tick), height - 5, duration(tick), {
        color: theme.muted,
        anchor: !tick ? "start" : x(tick) > width - 32 ? "end" : "middle",
        mono: true,
      }),
    );
  }
  const switched = x(data.switch);
  parts.push(
    `<line x1="${switched}" x2="${switched}" y1="${TOP - 6}" y2="${height - 18}" stroke="${theme.muted}" stroke-dasharray="4 4"/>`,
  );
  parts.push(label(switched, 12, "next tile", { color: theme.muted, anchor: "middle" }));
  parts.push(...keyOf(data, theme, switched - 38));
  for (const row of rows) {
    const short = width < NARROW_PICTURE,
      name = short ? row.short : row.title;
    if (name) parts.push(label(0, row.y + MIDDLE, name, { color: theme.ink, weight: 600 }));
    if (row.label && !short)
      parts.push(label(left - 8, row.y + MIDDLE, row.label, { color: theme.muted, anchor: "end" }));
    if (row.marks) parts.push(...row.marks.map((mark) => markOf(mark, row, x, theme, data)));
    else
      parts.push(
        ...row.spans.map(([start, end]) => bar(x(start), row.y, x(end) - x(start), theme[row.color], "")),
      );
  }
  parts.push(
    `<line class="head" y1="${TOP - 10}" y2="${height - 18}" stroke="${theme.edge}" stroke-width="1.5"/>`,
  );
  const about = "Copies, matrix products and softmax of one thread block over time";
  return `<svg viewBox="0 0 ${width} ${height}" height="${height * u}" role="img" aria-label="${about}">${parts.join("")}</svg>`;
}

/** What the colours of a warp group's marks stand for, as narrow ones have no room for a name. */
function keyOf({ operations }, theme, room) {
  let x = 0;
  return Object.values(operations)
    .filter(({ legend }) => legend)
    .flatMap(({ colour, legend: words }) => {
      const at = x;
      x += 7.6 * words.length + 26;
      if (x > room) return []; // it would reach what stands beside it
      const fill = fillOf(theme[colour], theme);
      return [
        `<rect x="${at}" y="3" width="10" height="10" rx="2" fill="${fill}"/>`,
        label(at + 14, 12, words, { color: theme.muted }),
      ];
    });
}

function label(x, y, words, { color, anchor = "start", weight = 400, mono = false }) {
  const face = mono ? MONO.replaceAll('"', "'") : SANS.replaceAll('"', "'");
  return `<text x="${x}" y="${y}" fill="${color}" text-anchor="${anchor}" font-size="12" font-weight="${weight}" font-family="${face}">${escaped(words)}</text>`;
}

function bar(x, y, w, fill, title, more = "") {
  return `<rect x="${x}" y="${y}" width="${Math.max(1, w - 1)}" height="${ROW}" rx="2.5" fill="${fill}" ${more}><title>${escaped(title)}</title></rect>`;
}

const fillOf = (color, theme) => mix(color, theme.ground, theme.name === "dark" ? 0.62 : 0.5);

/** One mark: the colour of the tensor that it brings or makes; a store is an outline. */
function markOf([operation, key, start, end], row, x, theme, { operations, outlined: stored }) {
  const { colour, name, made } = operations[operation],
    color = theme[colour],
    w = x(end) - x(start);
  const fill = fillOf(color, theme),
    title = `${named(name, key)}: ${duration(end - start)}, modelled`;
  const outlined =
    operation === stored ? `fill-opacity="0.25" stroke="${color}"` : `stroke="${theme.ground}"`;
  const words = named(made, key),
    fits = w > 7.4 * words.length + 3;
  const copied = operation === row.label; // several are under way at once: the name stands where each begins
  const at = copied ? { x: x(start) + 6, anchor: "start" } : { x: x(start) + w / 2, anchor: "middle" };
  const text = fits ? label(at.x, row.y + MIDDLE, words, { color: theme.ink, anchor: at.anchor }) : "";
  return `<g data-start="${start}" data-end="${end}">${bar(x(start), row.y, w, fill, title, outlined)}${text}</g>`;
}

/** What the table of operations calls a mark of a key block: "Q K₇ᵀ", "softmax of S₇". */
const named = (pattern, key) => pattern.replace("{}", key < 0 ? "" : subscript(key));

/** What one lane does at a moment; the first copies, the others compute. */
function doingNow({ short, marks }, index, seconds, operations) {
  const now = marks.filter(([, , start, end]) => seconds >= start && seconds < end),
    called = (field) => now.map(([operation, key]) => named(operations[operation][field], key));
  if (index === 0) return now.length ? `Copies in flight: ${called("name").join(", ")}` : "No copy in flight";
  return `${capital(short)}: ${[...new Set(called("deed"))].join(" and ") || "waiting"}`;
}

/** What all lanes do at a moment. */
export function sentenceAt({ lanes, operations }, seconds) {
  return lanes.map((lane, index) => `${doingNow(lane, index, seconds, operations)}.`).join(" ");
}
