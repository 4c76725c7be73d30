// The colours of a theme and the faces of type; the two palettes come in the header of what is drawn.

export const SANS = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Arial, sans-serif';
export const MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

export function channels(color) {
  const hex = color.trim().match(/^#([0-9a-f]{6})/i);
  if (hex) return [0, 2, 4].map((at) => parseInt(hex[1].slice(at, at + 2), 16));
  return (color.match(/[\d.]+/g) || [255, 255, 255]).slice(0, 3).map(Number);
}

/** `part` of one colour over another, as an opaque colour. */
export function mix(color, under, part) {
  const [a, b] = [channels(color), channels(under)];
  return `rgb(${a.map((value, i) => Math.round(value * part + b[i] * (1 - part))).join(",")})`;
}

/** The one of two palettes that Streamlit's variables ask for at an element; its ground and panels are taken as they are. */
export function readTheme(element, palettes) {
  const style = getComputedStyle(element);
  const value = (name) => style.getPropertyValue(name).trim();
  const ground = value("--st-background-color") || "#ffffff";
  const [r, g, b] = channels(ground);
  const name = 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
  const panel = value("--st-secondary-background-color") || palettes[name].panel;
  return { ...palettes[name], name, ground, panel, ink: value("--st-text-color") || palettes[name].ink };
}

/** The same colour, only so opaque. */
export const veil = (color, opacity) => `rgba(${channels(color).join(",")},${opacity})`;

/** Gives an element the theme's colours, by which its style sheet calls them. */
export function wear(element, theme) {
  const colours = { raised: mix(theme.ink, theme.cell, 0.12), focus: theme.Q };
  for (const name of ["ink", "ground", "panel", "cell", "line", "muted", "S", "bad"])
    colours[name] = theme[name];
  for (const [name, colour] of Object.entries(colours)) element.style.setProperty(`--${name}`, colour);
}
