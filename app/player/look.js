// Colours, type and the few drawing habits that all panels share.

const THEMES = {
  dark: {
    ground: "#0f1318", panel: "#171d25", cell: "#262f3b", line: "#2a333f", ink: "#eef2f6", muted: "#98a4b3",
    hatch: "#2a333f", good: "#3ecf8e", bad: "#ff7b72", edge: "#ffffff",
    Q: "#4ea8e8", K: "#f0b429", V: "#2fbf92", S: "#d68fc0", P: "#d68fc0", O: "#f07a3c", statistics: "#9ad4f5",
  },
  light: {
    ground: "#ffffff", panel: "#f4f6f8", cell: "#dfe4ea", line: "#dde2e8", ink: "#161d26", muted: "#556270",
    hatch: "#d3d9e0", good: "#0a7a45", bad: "#c0282d", edge: "#161d26",
    Q: "#0072b2", K: "#b87900", V: "#008760", S: "#b14a8f", P: "#b14a8f", O: "#c74e00", statistics: "#2b86b8",
  },
};
const ALIKE = { dO: "O", dQ: "Q", dK: "K", dV: "V", dP: "S", dS: "S", delta: "statistics", lse: "statistics" }; // a gradient has its tensor's colour
const SANS = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Arial, sans-serif';
const MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

function channels(color) {
  const hex = color.trim().match(/^#([0-9a-f]{6})/i);
  if (hex) return [0, 2, 4].map((at) => parseInt(hex[1].slice(at, at + 2), 16));
  return (color.match(/[\d.]+/g) || [255, 255, 255]).slice(0, 3).map(Number);
}

/** `part` of one colour over another, as an opaque colour. */
function mix(color, under, part) {
  const [a, b] = [channels(color), channels(under)];
  return `rgb(${a.map((value, i) => Math.round(value * part + b[i] * (1 - part))).join(",")})`;
}

/** The theme that Streamlit's variables describe at an element; its ground and panels are taken as they are. */
function readTheme(element) {
  const style = getComputedStyle(element);
  const value = (name) => style.getPropertyValue(name).trim();
  const ground = value("--st-background-color") || "#ffffff";
  const [r, g, b] = channels(ground);
  const name = 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
  const panel = value("--st-secondary-background-color") || THEMES[name].panel;
  const alike = Object.fromEntries(Object.entries(ALIKE).map(([tensor, other]) => [tensor, THEMES[name][other]]));
  return { ...THEMES[name], ...alike, name, ground, panel, ink: value("--st-text-color") || THEMES[name].ink };
}

/** Gives an element the theme's colours, by which its style sheet calls them. */
function wear(element, theme) {
  const colours = { raised: mix(theme.ink, theme.cell, 0.12), focus: theme.Q };
  for (const name of ["ink", "ground", "panel", "cell", "line", "muted", "S"]) colours[name] = theme[name];
  for (const [name, colour] of Object.entries(colours)) element.style.setProperty(`--${name}`, colour);
}

/** Text and boxes on a canvas, all sizes in units of `u` so that a larger screen shows larger type. */
class Pen {
  constructor(ctx, theme, u) {
    Object.assign(this, { ctx, theme, u });
  }

  /** Draws text and returns its width; `room` shortens what does not fit. */
  text(words, x, y, { size = 13, weight = 400, color = this.theme.ink, align = "left", mono = false, room = 0 } = {}) {
    const { ctx } = this;
    ctx.font = `${weight} ${(size * this.u).toFixed(2)}px ${mono ? MONO : SANS}`;
    ctx.textAlign = align;
    ctx.textBaseline = "alphabetic";
    ctx.fillStyle = color;
    let width = ctx.measureText(words).width;
    if (room && width > room) {
      while (words.length > 1 && ctx.measureText(words + "…").width > room) words = words.slice(0, -1);
      words += "…";
      width = ctx.measureText(words).width;
    }
    ctx.fillText(words, x, y);
    return width;
  }

  box(x, y, w, h, color, radius = 3) {
    if (w <= 0 || h <= 0) return;
    const { ctx } = this;
    ctx.fillStyle = color;
    if (radius * this.u < 1.5 || Math.min(w, h) < 4) return ctx.fillRect(x, y, w, h);
    ctx.beginPath();
    ctx.roundRect(x, y, w, h, Math.min(radius * this.u, w / 2, h / 2));
    ctx.fill();
  }

  frame(x, y, w, h, color, width, radius = 3) {
    const { ctx } = this;
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.roundRect(x, y, w, h, Math.min(radius * this.u, w / 2, h / 2));
    ctx.stroke();
  }

  rule(x, y, w) {
    this.ctx.fillStyle = this.theme.line;
    this.ctx.fillRect(x, Math.round(y), w, 1);
  }
}

const patterns = new Map();

/** A repeating pattern of thin diagonal lines, sharp at the device's resolution. */
function hatching(ctx, color, pitch, scale) {
  const name = `${color} ${pitch} ${scale}`;
  if (patterns.size > 30) patterns.clear(); // every size of the window has its own
  if (!patterns.has(name)) patterns.set(name, diagonals(ctx, color, pitch, scale));
  return patterns.get(name);
}

function diagonals(ctx, color, pitch, scale) {
  const tile = document.createElement("canvas");
  const side = Math.max(4, Math.round(pitch * scale));
  tile.width = tile.height = side;
  const brush = tile.getContext("2d");
  brush.strokeStyle = color;
  brush.lineWidth = Math.max(1, scale);
  brush.beginPath();
  for (const shift of [-side, 0, side]) {
    brush.moveTo(shift - 1, side + 1);
    brush.lineTo(shift + side + 1, -1);
  }
  brush.stroke();
  const pattern = ctx.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / scale));
  return pattern;
}
