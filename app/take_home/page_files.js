// Files of what the page shows now: moving pictures as PNG, GIF and MP4, charts as PNG and SVG, tables as CSV. All made here, in the browser.

import { csvFile } from "../canvas/csv.js";
import { APP, HTML, MAIN, MARKDOWN } from "../canvas/streamlit.js";
import { filmFiles } from "./films.js";
import { HtmlPicture, shape } from "./html_svg.js";

const SHARP = 2; // pixels of a chart's PNG for each of the screen's
const MARGIN = 12; // px around a chart
const SMALLEST = 80; // px: smaller pictures are icons
const PAINT = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity"],
  ...["visibility", "display", "font-family", "font-size", "font-weight", "font-style"],
  ...["text-anchor", "dominant-baseline", "shape-rendering"],
];

const main = () => document.querySelector(MAIN);
const shadows = () => [...main().querySelectorAll("*")].map((element) => element.shadowRoot).filter(Boolean);
const inPage = (selector) => [main(), ...shadows()].flatMap((root) => [...root.querySelectorAll(selector)]);
const large = (element) => {
  const { width, height } = element.getBoundingClientRect();
  return width >= SMALLEST && height >= SMALLEST;
};
const fileName = (words) => (words.toLowerCase().match(/[a-z0-9]+/g) ?? ["attention"]).join("-").slice(0, 60);

/** An element with properties and what it holds. */
function made(tag, properties, ...held) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...held);
  return element;
}

function save(blob, name) {
  const href = URL.createObjectURL(blob);
  made("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
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
  const canvas = made("canvas", { width: picture.width * SHARP, height: picture.height * SHARP });
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

const players = () =>
  inPage(".player")
    .map(({ player }) => player)
    .filter((player) => player?.model);

/** Every thing on the page that can be taken: its title, the name of its files, and how each kind of them is made. */
function things(scenario) {
  const found = (selector, otherwise, fits, files) =>
    inPage(selector)
      .filter(fits)
      .map((element) => ({ title: titleOf(element, otherwise), files: files(element) }));
  const apart = (element) => !element.closest(".player")?.player,
    drawn = (chart) => ({ PNG: () => chartPng(chart), SVG: () => chartSvg(chart) }),
    chart = (element) => large(element) && isPicture(element),
    picture = (canvas) => large(canvas) && apart(canvas),
    table = (element) => element.rows.length && apart(element);
  const all = [
    ...players().map((player) => ({
      ...player.takeHome,
      files: { ...filmFiles(player), ...player.takeHome.files },
    })),
    ...found(`.js-plotly-plot, svg, ${HTML}`, "Chart", chart, drawn),
    ...found("canvas[role=img]", "Picture", picture, (canvas) => ({ PNG: () => canvasPng(canvas) })),
    ...found("table", "Table", table, (element) => ({ CSV: () => tableCsv(element) })),
  ];
  const seen = new Map();
  for (const thing of all) {
    const nth = (seen.get(thing.title) ?? 0) + 1;
    seen.set(thing.title, nth);
    if (nth > 1) thing.title += `, ${nth}`; // where titles repeat
    thing.name ??= `${scenario}-${fileName(thing.title)}`;
  }
  return all;
}

/** A line of the list, with a button for each kind of file. */
function line({ title, files, name }) {
  const said = made("output", {});
  const buttons = Object.entries(files).map(([kind, make]) => {
    const file = [name, ...kind.toLowerCase().split(" ").reverse()].join("."), // "MP4 4K" ends in .4k.mp4
      button = made("button", { textContent: kind, ariaLabel: `${title} as ${kind}` });
    button.onclick = () => begin(button, make, file, said);
    return button;
  });
  return made("li", {}, made("span", { textContent: title }), said, ...buttons);
}

/** Makes a file, while the share that is done stands on its button; what keeps it from being made is said. */
async function begin(button, make, file, said) {
  const kind = button.textContent;
  button.disabled = true;
  said.textContent = "";
  try {
    save(await make((share) => (button.textContent = `${Math.floor(100 * share)}%`)), file);
  } catch (error) {
    said.textContent = error.message;
  }
  Object.assign(button, { disabled: false, textContent: kind });
}

async function copyLink(control) {
  const url = players()[0]?.takeHome.link ?? location.href;
  let copied = true;
  await navigator.clipboard.writeText(url).catch(() => (copied = false));
  control.textContent = copied ? "Link copied" : url;
}

const LOOK_AGAIN = 500; // ms: charts of a page that has just opened come one by one
const looking = new WeakMap(); // a list to its timer

/** Lists what there is; an unchanged list stays as it is, so that no button moves under the pointer. */
function fill(list, scenario, anyway) {
  const found = things(scenario),
    names = found.map(({ title }) => title).join("\n");
  if (!anyway && names === list.dataset.names) return;
  list.dataset.names = names;
  list.replaceChildren(...found.map(line));
}

export default function show({ data: scenario, parentElement }) {
  const list = parentElement.querySelector("ul"),
    link = parentElement.querySelector("[data-do=link]");
  fill(list, scenario, true);
  clearInterval(looking.get(list));
  const again = setInterval(() => fill(list, scenario, false), LOOK_AGAIN);
  looking.set(list, again);
  link.onclick = () => copyLink(link);
  return () => clearInterval(looking.get(list));
}
