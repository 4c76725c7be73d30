// The N × N matrices of unfused attention in the GPU's memory: their areas are their bytes, so the side grows with N.

import { grouped, percent, plural, times, traffic } from "../canvas/format.js";
import { readTheme, wear } from "../canvas/theme.js";

const FRAME = { x: 8, y: 20, side: 220 }; // of the SVG's units: the whole memory
const LEAST = 2.5; // units: the side of what would be too small to see
const MOST = 3 * FRAME.side; // beyond what the picture shows

/** Width and height of a matrix of so many rows and columns with that share of the memory's area; what fits lies within. */
export function sidesOf(share, rows, columns) {
  const side = FRAME.side * Math.sqrt(share),
    most = share <= 1 ? 1 / Math.sqrt(share) : Infinity, // beyond it a side is longer than the memory's
    shape = Math.min(most, Math.max(1 / most, Math.sqrt(columns / rows))),
    within = (length) => Math.min(MOST, Math.max(LEAST, length));
  return { w: within(side * shape), h: within(side / shape) };
}

/** What the picture says: what is kept, and whether it fits. */
export function wordsOf({ matrices, tensors, capacity, gpu, heads, queries, keys }) {
  const all = matrices + tensors,
    fits = all <= capacity,
    over = all / capacity >= 1.05 ? `${times(all / capacity)} times` : "a little more than";
  return {
    fits,
    verdict: fits
      ? `Standard attention takes ${percent(all / capacity)} of the memory.`
      : `Standard attention does not fit: it takes ${over} the memory.`,
    matrices: [
      traffic(matrices),
      `S and P, ${grouped(queries)} × ${grouped(keys)} for ${plural(heads, "head")}`,
    ],
    tensors: [traffic(tensors), "Q, K, V and O, all that fused attention stores"],
    capacity: `${gpu}: ${traffic(capacity)} of memory`,
  };
}

/** Streamlit calls this whenever the data or the theme change. */
export default function show({ data, parentElement }) {
  const root = parentElement.querySelector(".growth"),
    find = (selector) => root.querySelector(selector);
  if (!data) return;
  const theme = readTheme(root, data.palettes),
    words = wordsOf(data);
  wear(root, theme);
  root.style.setProperty("--bad", theme.bad);
  root.classList.toggle("full", !words.fits);
  const put = (selector, values) => {
    for (const [name, value] of Object.entries(values)) find(selector).setAttribute(name, value);
  };
  const { matrices, tensors, capacity, queries, keys } = data,
    bottom = FRAME.y + FRAME.side;
  const matrix = sidesOf(matrices / capacity, queries, keys),
    rest = sidesOf(tensors / capacity, 1, 1);
  put(".matrices", { y: bottom - matrix.h, width: matrix.w, height: matrix.h });
  put(".tensors", { x: FRAME.x + FRAME.side - rest.w, y: bottom - rest.h, width: rest.w, height: rest.h });
  for (const [name, [size, what]] of [
    ["matrix", words.matrices],
    ["rest", words.tensors],
  ]) {
    find(`.${name} b`).textContent = size;
    find(`.${name} span`).textContent = what;
  }
  find(".verdict").textContent = words.verdict;
  find(".capacity").textContent = words.capacity;
  find("svg").setAttribute("aria-label", `${words.capacity}. ${words.matrices.join(": ")}. ${words.verdict}`);
}
