// The few drawing habits that all panels share.

import { MONO, SANS } from "./theme.js";

const USUAL = { size: 13, weight: 400, align: "left", mono: false, room: 0, halo: "" }; // of text

/** Text and boxes on a canvas, all sizes in units of `u` so that a larger screen shows larger type. */
export class Pen {
  constructor(ctx, theme, u) {
    Object.assign(this, { ctx, theme, u });
  }

  /**
   * Draws text and returns its width; `room` leaves out last facts, of several, and shortens what does not fit, or
   * leaves it out where it is to be `whole`; a `halo` of a colour keeps it legible on any.
   */
  text(told, x, y, style) {
    const { ctx, theme, u } = this,
      { size, weight, color, align, mono, room, halo, whole } = { ...USUAL, color: theme.ink, ...style },
      facts = [told].flat(),
      wide = (words) => ctx.measureText(words).width;
    ctx.font = `${weight} ${(size * u).toFixed(2)}px ${mono ? MONO : SANS}`;
    ctx.textAlign = align;
    ctx.textBaseline = "alphabetic";
    ctx.fillStyle = color;
    while (room && facts.length > 1 && wide(facts.join(" · ")) > room) facts.pop();
    let words = facts.join(" · "),
      width = wide(words);
    if (room && width > room && whole) return 0;
    if (room && width > room) {
      while (words.length > 1 && wide(words + "…") > room) words = words.slice(0, -1);
      words += "…";
      width = wide(words);
    }
    if (halo) {
      Object.assign(ctx, { strokeStyle: halo, lineWidth: 3 * u, lineJoin: "round" });
      ctx.strokeText(words, x, y);
    }
    ctx.fillText(words, x, y);
    return width;
  }

  right(told, x, y, style) {
    return this.text(told, x, y, { ...style, align: "right" });
  }

  centered(told, x, y, style) {
    return this.text(told, x, y, { ...style, align: "center" });
  }

  /** The same, from a point upwards. */
  upwards(told, x, y, style) {
    const { ctx } = this;
    ctx.save();
    ctx.translate(x, y);
    ctx.rotate(-Math.PI / 2);
    this.text(told, 0, 0, style);
    ctx.restore();
  }

  /** Words beside what matters, paler. */
  note(told, x, y, style) {
    return this.text(told, x, y, { size: 12.5, color: this.theme.muted, ...style });
  }

  /** The number that matters, large, its right end at a point. */
  value(told, x, y, style) {
    return this.right(told, x, y, { size: 21, weight: 700, mono: true, ...style });
  }

  /** A name and, so far beside it, what is said of it, in so much room for both; how wide both are. */
  heading(name, told, x, y, room, { apart = 10, note, ...style } = {}) {
    const from = this.text(name, x, y, { size: 14, weight: 650, ...style }) + apart * this.u;
    return from + this.note(told, x + from, y, { room: room - from, whole: true, ...note });
  }

  /** A bold name above the middle of a column. */
  above(name, { x, w }, y, color) {
    this.centered(name, x + w / 2, y - 8 * this.u, { size: 13, weight: 700, color });
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
    if (w <= 0 || h <= 0) return;
    const { ctx } = this;
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.roundRect(x, y, w, h, Math.min(radius * this.u, w / 2, h / 2));
    ctx.stroke();
  }

  /** The outline of what is not there. */
  dashed(x, y, w, h, color, width, dash = [3, 3], radius = 0) {
    this.ctx.setLineDash(dash);
    this.frame(x, y, w, h, color, width, radius);
    this.ctx.setLineDash([]);
  }

  /** Diagonal lines, so many pixels apart, over a box. */
  hatch(x, y, w, h, color, pitch) {
    if (w <= 0 || h <= 0) return;
    this.ctx.fillStyle = hatching(this.ctx, color, pitch);
    this.ctx.fillRect(x, y, w, h);
  }

  /** A line through points, [x, y, x, y, …], dashed if so asked. */
  line(points, color, width, dash = []) {
    const { ctx } = this;
    Object.assign(ctx, { strokeStyle: color, lineWidth: width, lineJoin: "round" });
    ctx.setLineDash(dash);
    ctx.beginPath();
    for (let n = 0; n < points.length; n += 2) ctx.lineTo(points[n], points[n + 1]);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  dot(x, y, radius, color) {
    const { ctx } = this;
    ctx.fillStyle = color;
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 7);
    ctx.fill();
  }

  /** Draws within a box alone. */
  within({ x, y, w, h }, draw) {
    const { ctx } = this;
    ctx.save();
    ctx.beginPath();
    ctx.rect(x, y, w, h);
    ctx.clip();
    draw();
    ctx.restore();
  }

  rule(x, y, w) {
    this.ctx.fillStyle = this.theme.line;
    this.ctx.fillRect(x, Math.round(y), w, 1);
  }
}

/** A canvas for a part of another one, which is drawn on in the other's own units: its context. */
export function sheet({ x, y, w, h }, dpr) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(w * dpr));
  canvas.height = Math.max(1, Math.round(h * dpr));
  const ctx = canvas.getContext("2d");
  ctx.setTransform(dpr, 0, 0, dpr, -x * dpr, -y * dpr);
  return ctx;
}

const patterns = new Map();

/** A repeating pattern of thin diagonal lines, sharp at the canvas's resolution. */
export function hatching(ctx, color, pitch) {
  const scale = ctx.getTransform().a,
    name = `${color} ${pitch} ${scale}`;
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
