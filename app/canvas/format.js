// Numbers as people read them. Bytes that move count in powers of ten, those that a chip holds in KiB.

const MINUS = "−";
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
export const grouped = (n) => WHOLE.format(n);
export const plural = (n, noun, nouns = `${noun}s`) => `${grouped(n)} ${n === 1 ? noun : nouns}`;
export const capital = (words) => words[0].toUpperCase() + words.slice(1);
export const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
export const between = (from, to, part) => from + (to - from) * part;
/** A part of a way, 0 to 1, slow at both ends. */
export const eased = (part) => part * part * (3 - 2 * part);

/** Three significant digits, never an exponent. */
function significant(x, digits = 3) {
  if (x === 0) return "0";
  const whole = Math.floor(Math.log10(Math.abs(Number(x.toPrecision(digits))))) + 1;
  return x.toFixed(clamp(digits - whole, 0, 6));
}

export function decimal(x, places = 2) {
  if (x === -Infinity) return MINUS + "∞";
  if (x === Infinity) return "∞";
  if (Number.isNaN(x)) return "–";
  const text = Math.abs(x).toFixed(places);
  return (x < 0 && Number(text) !== 0 ? MINUS : "") + text;
}

/** Two numbers that differ, with as many places as tell them apart: two at least. */
export function toldApart(one, other) {
  let places = 2;
  while (places < 9 && decimal(one, places) === decimal(other, places)) places++;
  return [decimal(one, places), decimal(other, places)];
}

/** A rescale factor: 0 and 1 are exact, what lies close to them does not pretend to be. */
export function factor(x) {
  if (Number.isNaN(x)) return "–";
  if (x === 0 || x === 1) return x.toFixed(2);
  if (x < 0.01) return x < 1e-4 ? "<0.0001" : significant(x, 2);
  return x > 0.995 ? Math.min(x, 0.9999).toFixed(4) : x.toFixed(2);
}

export function sum(x) {
  return Number.isNaN(x) ? "–" : x >= 1e6 ? x.toExponential(2) : significant(x);
}

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** Bytes, moved or kept, in powers of ten. */
export function traffic(bytes) {
  if (bytes < 1e3) return `${bytes} B`;
  const power = Math.floor(Math.log10(Number(bytes.toPrecision(3))) / 3);
  return `${significant(bytes / 1000 ** power)} ${PREFIXES[power]}B`;
}

/** Bytes on the chip, in KiB as vendors state its memory. */
export const inKib = (bytes) => (bytes < 1024 ? `${bytes} B` : `${significant(bytes / 1024)} KiB`);

/** Bytes a second of a memory: all of them in one unit, to be compared. */
export const rate = (bytesPerSecond) =>
  `${Number((bytesPerSecond / 1e12).toFixed(bytesPerSecond < 1e13 ? 2 : 1))} TB/s`;

const LONG = [
  [86400, "days"],
  [3600, "h"],
  [60, "min"],
]; // told from two of them on

export function duration(seconds) {
  const short = seconds < 999.5e-6 ? [1e-6, "µs"] : seconds < 0.9995 ? [1e-3, "ms"] : [1, "s"],
    [unit, name] = LONG.find(([size]) => seconds >= 2 * size) ?? short;
  return `${seconds === 0 ? "0.00" : significant(seconds / unit)} ${name}`;
}

/** Microseconds, with as many places as a step of them needs. */
export function microseconds(value, step = 0.01) {
  const [whole, part] = value.toFixed(step < 0.1 ? 2 : step < 1 ? 1 : 0).split(".");
  return grouped(Number(whole)) + (part ? `.${part}` : "");
}

/** How many microseconds a unit has in which times up to the longest are short to read, and its name. */
export function unitOf(longest) {
  return longest < 1e4 ? [1, "µs"] : longest < 1e7 ? [1e3, "ms"] : [1e6, "s"];
}

/** A share of a whole, 0 to 1; nearly none and nearly all do not read as none and all. */
export function percent(part) {
  if (part === 0) return "0%";
  if (part > 0.995 && part < 1 - 1e-6) return ">99%"; // sums of float32 miss 1 by less
  return part < 0.001 ? "<0.1%" : `${significant(100 * part, 2)}%`;
}

/** The same in whole per cent, where there is little room. */
export function wholePercent(part) {
  return part > 0 && part < 0.005
    ? "<1%"
    : part >= 0.005 && part < 0.1
      ? `${Math.round(100 * part)}%`
      : percent(part);
}

export function times(ratio) {
  return ratio >= 100 ? grouped(ratio) : ratio.toFixed(1);
}

/** A small number as a word. */
export const counted = (n) => ["no", "one", "two", "three", "four", "five", "six"][n] ?? grouped(n);

export function subscript(n) {
  return String(n).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]);
}

/** How many values come before the first of which something does not hold, where it holds of none after. */
export function countWhile(values, holds) {
  let low = 0,
    high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(values[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How many of the sorted values are at most x. */
export const countUpTo = (sorted, x) => countWhile(sorted, (value) => value <= x);

/** A round step that cuts a span into no more than so many parts: 1, 2 or 5 times a power of ten. */
export function roundStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => span / step <= most);
}
