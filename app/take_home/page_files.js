// Files of what the page shows now: players as PNG, GIF and CSV, charts as PNG and SVG, tables as CSV. All made here, in the browser.

import { csvFile } from "../canvas/csv.js";
import { APP, HTML, MAIN, MARKDOWN } from "../canvas/streamlit.js";
import { HtmlPicture, shape } from "./html_svg.js";

const SHARP = 2; // pixels of a chart's PNG for each of the screen's
const MARGIN = 12; // px around a chart
const SMALLEST = 80; // px: smaller pictures are icons
const PAINT = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity"],
  ...["visibility", "display", "font-family", "font-size", "font-weight", "font-style"],
  ...["text-anchor", "dominant-baseline", "shape-rendering"],
];
const films = new WeakMap(); // a player's element to its film in the making, which goes on while the list is closed

const main = () => document.querySelector(MAIN);
const shadows = () => [...main().querySelectorAll("*")].map((element) => element.shadowRoot).filter(Boolean);
const inPage = (selector) => [main(), ...shadows()].flatMap((root) => [...root.querySelectorAll(selector)]);
const large = (element) => {
  const { width, height } = element.getBoundingClientRect();
  return width >= SMALLEST && height >= SMALLEST;
};
const fileName = (words) =>
  words
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 60) || "attention";

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** What a picture or table is called: its own label, else what is bold before it. */
function titleOf(element, otherwise) {
  const named = element.closest("[data-title], [aria-label]") ?? element.querySelector?.("[data-title]");
  if (named && (!main().contains(element) || main().contains(named)))
    return named.dataset.title ?? named.getAttribute("aria-label");
  const own = element.querySelector?.("caption")?.innerText;
  if (own) return own;
  const stands = main().contains(element) ? element : element.getRootNode().host;
  const before = (text) => text.compareDocumentPosition(stands) & Node.DOCUMENT_POSITION_FOLLOWING;
  const bold = [...main().querySelectorAll(`${MARKDOWN} strong`)];
  return bold.filter(before).at(-1)?.innerText || otherwise;
}

/** An SVG element with its looks written into it, so that it stands without the page's style sheets. */
function standing(svg) {
  const copy = svg.cloneNode(true);
  const from = [svg, ...svg.querySelectorAll("*")],
    to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, n) => {
    const style = getComputedStyle(element);
    for (const name of PAINT) to[n].style?.setProperty(name, style.getPropertyValue(name));
  });
  for (const aid of copy.querySelectorAll(".draglayer, .hoverlayer")) aid.remove();
  return copy;
}

/** A chart as one SVG document on the page's ground; a Plotly chart is several layers. */
function chartSvg(chart) {
  const box = chart.getBoundingClientRect(),
    width = box.width + 2 * MARGIN,
    height = box.height + 2 * MARGIN;
  const fill = getComputedStyle(document.querySelector(APP)).backgroundColor;
  const ground = shape("rect", { x: -MARGIN, y: -MARGIN, width, height, fill });
  const whole = shape("svg", { width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}` }, ground);
  if (chart.matches(HTML)) whole.append(new HtmlPicture(chart).draw());
  for (const layer of chart.matches("svg") ? [chart] : chart.querySelectorAll(".main-svg")) {
    const { width, height } = layer.getBoundingClientRect(),
      copy = standing(layer);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    whole.append(copy);
  }
  return new Blob([new XMLSerializer().serializeToString(whole)], { type: "image/svg+xml" });
}

async function chartPng(chart) {
  const picture = new Image(),
    url = URL.createObjectURL(chartSvg(chart));
  picture.src = url;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width * SHARP, picture.height * SHARP];
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  return canvasPng(canvas);
}

const canvasPng = (canvas) => new Promise((done) => canvas.toBlob(done, "image/png"));

/** Raw numbers where the table carries them, else the cells */
function tableCsv(table) {
  const cells = table.dataset.sheet
    ? JSON.parse(table.dataset.sheet)
    : [...table.rows].map((row) => [...row.cells].map((cell) => cell.innerText.trim()));
  return csvFile(cells);
}

/** Whether an element is a picture of its own: no part of a chart, no icon, no mere table or text. */
function isPicture(element) {
  if (element.matches("svg")) return !element.closest(".js-plotly-plot, button, .katex");
  return (
    !element.matches(HTML) ||
    !(element.querySelector("table.numbers, svg, style") && !element.querySelector("img, .grid, .bars"))
  );
}

/** Every thing on the page that can be taken: its title and its files by kind. */
function things() {
  const players = inPage(".player")
    .filter((root) => root.takeHome)
    .map((root) => ({ title: "Player", root }));
  const charts = inPage(`.js-plotly-plot, svg, ${HTML}`)
    .filter((chart) => large(chart) && isPicture(chart))
    .map((chart) => ({
      title: titleOf(chart, "Chart"),
      files: { PNG: () => chartPng(chart), SVG: () => chartSvg(chart) },
    }));
  const canvases = inPage("canvas[role=img]")
    .filter((canvas) => large(canvas) && !canvas.closest(".player")?.takeHome)
    .map((canvas) => ({
      title: titleOf(canvas, "Picture"),
      files: { PNG: () => canvasPng(canvas) },
    }));
  const tables = inPage("table")
    .filter((table) => table.rows.length && !table.closest(".player")?.takeHome)
    .map((table) => ({
      title: titleOf(table, "Table"),
      files: { CSV: () => tableCsv(table) },
    }));
  return [...players, ...charts, ...canvases, ...tables];
}

const button = (words, act) => {
  const made = document.createElement("button");
  made.textContent = words;
  made.addEventListener("click", act);
  return made;
};

/** A line of the list; of things that have the same title, each says which it is. */
function line(words, ...controls) {
  const item = document.createElement("li"),
    title = document.createElement("span");
  title.textContent = words;
  item.append(title, ...controls);
  return item;
}

function fileLine({ title, files }, scenario) {
  const controls = Object.entries(files).map(([kind, make]) =>
    button(kind, async () => save(await make(), `${scenario}-${fileName(title)}.${kind.toLowerCase()}`)),
  );
  for (const control of controls) control.setAttribute("aria-label", `${title} as ${control.textContent}`);
  return line(title, ...controls);
}

/** The player's picture now, its tile visits, and its run as a GIF, which takes some seconds and can be cancelled. */
function playerLine(root) {
  const { takeHome } = root,
    share = document.createElement("output");
  const png = button("PNG", async () => save(await takeHome.png(), `${takeHome.name()}.png`));
  const gif = button("GIF", () => (films.has(root) ? films.get(root).stop() : film(root)));
  const csv = button("CSV", () => save(takeHome.csv(), `${takeHome.name()}.csv`));
  png.setAttribute("aria-label", "Player's picture as PNG");
  csv.setAttribute("aria-label", "Player's tile visits as CSV");
  const item = line("Player: picture, animation, tile visits", share, png, gif, csv);
  item.show = (state) => {
    share.textContent =
      state === undefined ? "" : typeof state === "number" ? `${Math.floor(100 * state)}%` : state;
    gif.textContent = films.has(root) ? "cancel" : "GIF";
    gif.setAttribute("aria-label", films.has(root) ? "Cancel the GIF" : "Player's run as GIF");
  };
  item.show(films.get(root)?.share);
  root.filmLine = item;
  return item;
}

async function film(root) {
  const abort = new AbortController(),
    { takeHome } = root;
  const making = { share: 0, stop: () => abort.abort() };
  films.set(root, making);
  let end;
  try {
    const progress = (share) => {
      making.share = share;
      root.filmLine.show(share);
    };
    const blob = await takeHome.gif(progress, abort.signal);
    save(blob, `${takeHome.name()}.gif`);
  } catch (error) {
    if (error.name !== "AbortError") end = "failed";
  }
  films.delete(root);
  root.filmLine.show(end);
}

async function copyLink(control) {
  const url =
    inPage(".player")
      .find((root) => root.takeHome)
      ?.takeHome.link() ?? location.href;
  let copied = true;
  await navigator.clipboard.writeText(url).catch(() => (copied = false));
  control.textContent = copied ? "Link copied" : url;
}

const LOOK_AGAIN = 500; // ms: charts of a page that has just opened come one by one
const looking = new WeakMap(); // a list to its timer

/** What there is, with a number where titles repeat. */
function numbered() {
  const seen = new Map();
  return things().map((thing) => {
    const nth = (seen.get(thing.title) ?? 0) + 1;
    seen.set(thing.title, nth);
    return nth > 1 ? { ...thing, title: `${thing.title}, ${nth}` } : thing;
  });
}

/** Links to the files that the server makes when they are asked for. */
function links(files) {
  return files.map(([words, address]) => {
    const link = document.createElement("a");
    link.textContent = words;
    link.href = new URL(address, document.baseURI);
    link.download = "";
    return link;
  });
}

/** Lists what there is; an unchanged list stays as it is, so that no button moves under the pointer. */
function fill(list, scenario, anyway) {
  const found = numbered(),
    names = found.map(({ title }) => title).join("\n");
  if (!anyway && names === list.dataset.names) return;
  list.dataset.names = names;
  list.replaceChildren(
    ...found.map((thing) => (thing.root ? playerLine(thing.root) : fileLine(thing, scenario))),
  );
}

export default function show({ data, parentElement }) {
  const list = parentElement.querySelector("ul"),
    link = parentElement.querySelector("[data-do=link]");
  fill(list, data.scenario, true);
  parentElement.querySelector("p").replaceChildren(...links(data.files));
  clearInterval(looking.get(list));
  looking.set(
    list,
    setInterval(() => fill(list, data.scenario, false), LOOK_AGAIN),
  );
  link.onclick = () => copyLink(link);
  return () => clearInterval(looking.get(list));
}
