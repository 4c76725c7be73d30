// A picture that is made of HTML boxes and words (bars, grids), drawn as SVG: boxes, stripes, frames, images, text.

const SVG = "http://www.w3.org/2000/svg";
const COLOUR = /rgba?\([^)]*\)|color\([^)]*\)/g;
const STRIPES = 6; // px from stripe to stripe

/** An SVG element with attributes. */
export function shape(name, values, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const clear = (colour) => /^(transparent|rgba\(.*, 0\))$/.test(colour) || / \/ 0\)$/.test(colour);

export class HtmlPicture {
  constructor(root) {
    this.root = root;
    this.origin = root.getBoundingClientRect();
    this.svg = shape("svg", { width: this.origin.width, height: this.origin.height });
  }

  draw() {
    this.element(this.root);
    return this.svg;
  }

  element(element) {
    const style = getComputedStyle(element),
      box = element.getBoundingClientRect();
    if (style.display === "none" || style.visibility === "hidden") return;
    const at = { x: box.x - this.origin.x, y: box.y - this.origin.y, width: box.width, height: box.height };
    if (box.width && box.height) this.box(element, style, at);
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) this.text(child, style);
      else if (child.nodeType === Node.ELEMENT_NODE) this.element(child);
    }
  }

  box(element, style, at) {
    if (!clear(style.backgroundColor)) this.svg.append(shape("rect", { ...at, fill: style.backgroundColor }));
    if (style.backgroundImage !== "none") this.image(style.backgroundImage, at);
    if (element.matches("img"))
      this.svg.append(
        shape("image", { ...at, href: element.currentSrc || element.src, preserveAspectRatio: "none" }),
      );
    for (const side of ["Bottom", "Right"]) this.edge(style, side, at);
    if (style.boxShadow.includes("inset")) this.frame(style.boxShadow.match(COLOUR)?.[0], 2.5, -1.25, at);
    if (style.outlineStyle !== "none" && parseFloat(style.outlineWidth))
      this.frame(style.outlineColor, parseFloat(style.outlineWidth), parseFloat(style.outlineOffset), at);
  }

  edge(style, side, { x, y, width, height }) {
    const thick = parseFloat(style[`border${side}Width`]),
      fill = style[`border${side}Color`];
    if (!thick || style[`border${side}Style`] === "none" || clear(fill)) return;
    const bottom = side === "Bottom",
      [w, h] = bottom ? [width, thick] : [thick, height];
    this.svg.append(shape("rect", { x: x + width - w, y: y + height - h, width: w, height: h, fill }));
  }

  frame(stroke, width, away, at) {
    const around = { width: at.width + 2 * away, height: at.height + 2 * away, fill: "none", stroke };
    this.svg.append(shape("rect", { x: at.x - away, y: at.y - away, ...around, "stroke-width": width }));
  }

  /** Stripes, or the line that strikes a cell out: the two gradients that the tables use. */
  image(gradient, at) {
    const [colour] = (gradient.match(COLOUR) || []).filter((found) => !clear(found));
    if (!colour) return;
    const { x, y, width, height } = at;
    if (!gradient.startsWith("repeating")) {
      this.svg.append(
        shape("line", { x1: x, y1: y + height, x2: x + width, y2: y, stroke: colour, "stroke-width": 2 }),
      );
      return;
    }
    const id = `stripes-${this.svg.childElementCount}`,
      line = shape("line", { x1: 0, y1: 0, x2: 0, y2: STRIPES, stroke: colour, "stroke-width": 3 });
    const turned = { patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
    this.svg.append(
      shape("pattern", { id, width: STRIPES, height: STRIPES, ...turned }, line),
      shape("rect", { ...at, fill: colour, "fill-opacity": 0.22 }),
      shape("rect", { ...at, fill: `url(#${id})` }),
    );
  }

  /** Words where they stand, line by line. */
  text(node, style) {
    const range = document.createRange();
    for (const { index, 0: word } of node.data.matchAll(/\S+/g)) {
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const box = range.getBoundingClientRect(),
        size = parseFloat(style.fontSize);
      if (!box.width) continue;
      const place = { x: box.x - this.origin.x, y: box.y - this.origin.y + box.height / 2 + 0.35 * size };
      const look = {
        fill: style.color,
        "font-family": style.fontFamily,
        "font-size": size,
        "font-weight": style.fontWeight,
        opacity: style.opacity,
      };
      this.svg.append(shape("text", { ...place, ...look, textLength: box.width }, word));
    }
  }
}
