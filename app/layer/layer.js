// One canvas, one clock: a layer's time as one bar, before and after, while the prompt grows.

import { wholePercent } from "../canvas/format.js";
import { showingFrames } from "../canvas/frames.js";
import { mix } from "../canvas/theme.js";

const BAR = {
  label: "Attention's slice of a layer",
  frame: "length",
};
const WAYS = ["standard", "fast"];
const short = (tokens) => (tokens < 1024 ? `${tokens}` : `${tokens / 1024}k`);

class LayerPanel {
  paint(pen, box, { at }) {
    const { u } = pen,
      { x, y, w, h } = box,
      high = Math.min(150 * u, 0.42 * h),
      moment = this.moment(at);
    WAYS.forEach((way, n) =>
      this.bar(pen, { x, y: y + (n * high) / 2, w, h: high / 2 - 8 * u }, way, moment),
    );
    this.curves(pen, { x: x + 46 * u, y: y + high + 30 * u, w: w - 60 * u, h: h - high - 60 * u }, at);
  }

  /** Seconds at a place: between two lengths that are computed each keeps its rate of growth. */
  moment(at) {
    const { now, next, part } = this.model.at(at);
    const of = (name) => (next ? now[name] ** (1 - part) * next[name] ** part : now[name]);
    const nearest = this.model.frames[Math.round(at)];
    return { ...nearest, rest: of("rest"), standard: of("standard"), fast: of("fast") };
  }

  bar(pen, { x, y, w, h }, way, moment) {
    const { theme, model, u } = this,
      name = model.names[WAYS.indexOf(way)],
      scale = w / Math.max(...WAYS.map((each) => moment.rest + moment[each])),
      [rest, own] = [moment.rest * scale, moment[way] * scale],
      [top, thick] = [y + 22 * u, h - 22 * u];
    pen.heading(name, moment.words[WAYS.indexOf(way)], x, y + 14 * u, w);
    pen.box(x, top, rest, thick, mix(theme.muted, theme.ground, 0.45), 3);
    pen.box(x + rest + 2, top, own - 2, thick, theme.S, 3);
    if (way === "standard" && !moment.fits) pen.hatch(x + rest + 2, top, own - 2, thick, theme.ground, 8 * u);
    const label = { size: 13, weight: 650, halo: theme.ground };
    if (rest > 90 * u) pen.centered("all the rest", x + rest / 2, top + thick / 2 + 5 * u, label);
    if (own > 80 * u) pen.centered("attention", x + rest + own / 2, top + thick / 2 + 5 * u, label);
  }

  /** Attention's share over all lengths, both ways, and where we are. */
  curves(pen, { x, y, w, h }, at) {
    const { theme, model, u } = this,
      { frames } = model,
      place = (n) => x + (w * n) / model.longest,
      level = (share) => y + h * (1 - share),
      style = { size: 12, mono: true, color: theme.muted },
      every = Math.ceil((48 * u * frames.length) / w),
      now = this.moment(at),
      title = `Attention's share${this.narrow ? "" : " of the layer's time"}`;
    pen.text(title, x - 46 * u, y - 12 * u, { size: 14, weight: 650 });
    for (const share of [0, 0.5, 1]) {
      pen.rule(x, level(share), w);
      pen.right(wholePercent(share), x - 6 * u, level(share) + 4 * u, style);
    }
    frames.forEach(({ mark }, n) => {
      if (n % every === 0) pen.centered(short(mark), place(n), y + h + 18 * u, style);
    });
    WAYS.forEach((way, n) => {
      const color = n ? theme.S : theme.muted,
        of = (each) => each[way] / (each.rest + each[way]);
      const points = frames.flatMap((each, k) => [place(k), level(of(each))]);
      pen.line(points, color, 3 * u);
      pen.box(place(at) - 6 * u, level(of(now)) - 6 * u, 12 * u, 12 * u, color, 6);
      const named = frames.findIndex((each) => of(each) > (n ? 0.3 : 0.5)),
        style = { size: 13, weight: 650, color, halo: theme.ground };
      if (n) pen.right(model.names[n], x + w, level(0.06), style);
      else pen.right(model.names[n], place(named) - 14 * u, level(0.56), style);
    });
    pen.box(place(at) - 0.75 * u, y, 1.5 * u, h, theme.ink, 0);
  }
}

export default showingFrames(LayerPanel, BAR, "__layer", true);
