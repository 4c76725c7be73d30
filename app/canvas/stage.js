// The canvas: its size and its panels.

import { clamp } from "./format.js";
import { Pen } from "./pen.js";

export const NARROW = 640; // px: below it only what a phone has room for
export const ROOMY = 1040; // units: below it there is no room for every panel, as where type is large
const LEGIBLE = 11 / 11.5; // px in a unit at which the smallest type, of 11.5 units, is 11 px
const ON_PHONES = 14 / 11.5; // and on a phone 14 px
const ROOM_TYPE = 13.6; // px of the page's type at which a room's smallest type, 11.5 units, is 16 px in 19

export class Stage {
  constructor(root, canvas = root.querySelector(".stage canvas"), options = {}) {
    this.root = root;
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d", options);
    this.panels = [];
  }

  /** Takes the room that the page leaves; whether it differs from before. */
  measure() {
    this.root.style.setProperty("--above", `${Math.round(aboveOf(this.root))}px`);
    const { clientWidth, clientHeight } = this.root,
      narrow = clientWidth < NARROW;
    const least = narrow ? ON_PHONES : LEGIBLE,
      fitting = clamp(Math.min(clientWidth / (narrow ? 420 : 1130), clientHeight / 770), least, 2.2);
    const room = roomUnit(this.root),
      u = Math.max(fitting, room);
    this.root.style.setProperty("--u", Math.max(Math.min(u, 2), room));
    const { width, height } = this.canvas.getBoundingClientRect(),
      dpr = window.devicePixelRatio || 1;
    if (!width || !height || (width === this.width && height === this.height && dpr === this.dpr))
      return false;
    this.resize(width, height, dpr, u);
    return true;
  }

  /** A size in CSS pixels, device pixels in each, and the unit that type is drawn in. */
  resize(width, height, dpr, u) {
    Object.assign(this, { width, height, dpr, u });
    this.canvas.width = Math.round(width * dpr);
    this.canvas.height = Math.round(height * dpr);
  }

  /**
   * Panels in their boxes, on an empty canvas: `placed` are [class, box, what one panel of that class differs in].
   * A panel knows its box, the model, theme, unit and resolution before its `layout()`.
   */
  place(placed, model, theme) {
    const { u, dpr, ctx } = this;
    this.panels = placed.map(([Panel, box, own]) => {
      const panel = Object.assign(new Panel(), { box, model, theme, u, dpr }, own);
      panel.layout?.(box);
      return panel;
    });
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    this.pen = new Pen(ctx, theme, u);
  }

  paint(view) {
    this.ctx.clearRect(0, 0, this.width, this.height);
    for (const panel of this.panels) panel.paint(this.pen, panel.box, view);
  }
}

/** How far below the top of the page an element begins, in pixels, however far the page is scrolled. */
export function aboveOf(element) {
  const scrolls = (node) =>
    node.scrollHeight > node.clientHeight && /auto|scroll/.test(getComputedStyle(node).overflowY);
  let node = element.getRootNode().host; // outside the component's shadow
  while (node && !scrolls(node)) node = node.parentElement;
  return element.getBoundingClientRect().top + (node?.scrollTop || 0);
}

/** The least unit that type is drawn in while the page is shown to a room; 0 where it is not. */
export function roomUnit(root) {
  if (!getComputedStyle(root).getPropertyValue("--room")) return 0;
  return parseFloat(getComputedStyle(document.documentElement).fontSize) / ROOM_TYPE;
}
