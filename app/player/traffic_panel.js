// What the tiles have requested from L2 and HBM.

import { traffic } from "../canvas/format.js";
import { mix } from "../canvas/look.js";
import { compared } from "./words.js";

export class TrafficPanel {
  signature({ run, step }) {
    return `${run.name} ${step}`;
  }

  heading(pen, box, model) {
    const { u, theme } = pen,
      heading = model.scaled ? "Requested, one head as drawn" : "Requested, one head";
    pen.text(heading, box.x, box.y + 16 * u, { size: 15, weight: 600 });
    pen.text("counted", box.x + box.w, box.y + 16 * u, { size: 12.5, color: theme.good, align: "right" });
  }

  paint(pen, box, { model, run, step }) {
    const { u, theme } = pen,
      right = box.x + box.w;
    this.heading(pen, box, model);
    const part = run.time ? run.timeAt(step) / run.time : 0;
    const pitch = (box.h - 52 * u) / model.algorithms.length;
    model.algorithms.forEach((name, n) => {
      const other = model.runs[name];
      const at =
        name === run.name
          ? step
          : step < 0
            ? -1
            : step >= run.steps
              ? other.steps
              : other.stepAt(part * other.time);
      const area = { x: box.x, y: box.y + 28 * u + n * pitch, w: box.w };
      trafficBar(pen, area, other, at, model.mostTraffic, name === run.name);
    });
    const y = box.y + box.h - 8 * u;
    const { against } = model;
    const [subject, words] = run.unfused
      ? [`${against.title}, whole run`, compared(against, run)]
      : ["whole run", compared(run, against, against.title)];
    pen.text(words, right, y, { size: 13.5, weight: 700, align: "right" });
    pen.text(subject, box.x, y, { size: 12.5, color: theme.muted });
  }
}

/** One algorithm's bytes: solid so far, pale to its total; written is striped as well as orange. */
export function trafficBar(pen, { x, y, w }, run, step, most, strong, title = run.title) {
  const { u, theme } = pen,
    right = x + w;
  const read = run.readAt(step),
    written = run.writtenAt(step);
  pen.text(title, x, y + 14 * u, { size: 13.5, weight: strong ? 700 : 400 });
  pen.text(traffic(read + written), right, y + 14 * u, {
    size: 15,
    weight: strong ? 700 : 400,
    mono: true,
    align: "right",
  });
  const h = 11 * u,
    top = y + 20 * u,
    scale = w / most;
  pen.box(x, top, w, h, theme.panel, 3);
  pen.box(x, top, Math.max(2, run.total * scale), h, theme.cell, 3);
  pen.box(x, top, read * scale, h, theme.Q, 3);
  const from = x + read * scale + (read ? 1 : 0);
  pen.box(from, top, written * scale, h, theme.O, 3);
  stripes(pen, from, top, written * scale, h);
  const foot = top + h + 13 * u,
    small = { size: 11.5, mono: true };
  const first = pen.text(`read ${traffic(read)}`, x, foot, { ...small, color: theme.Q });
  const whole = { ...small, color: theme.muted, align: "right" };
  const rest = pen.text(`of ${traffic(run.total)}`, right, foot, whole);
  const words = `written ${traffic(written)}`,
    fits = 110 * u + pen.ctx.measureText(words).width + 8 * u < w - rest; // where all bars' words can begin alike
  pen.text(words, x + Math.max(first + 12 * u, fits ? 110 * u : 0), foot, { ...small, color: theme.O });
}

function stripes(pen, x, y, w, h) {
  if (w < 3) return;
  const { ctx } = pen;
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
  ctx.strokeStyle = mix(pen.theme.ground, pen.theme.O, 0.35);
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let at = x - h; at < x + w; at += 5 * pen.u) {
    ctx.moveTo(at, y + h);
    ctx.lineTo(at + h, y);
  }
  ctx.stroke();
  ctx.restore();
}
