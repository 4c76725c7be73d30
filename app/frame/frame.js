// What Streamlit's own frame of a page leaves undone: the server is told which page's name is pressed, the rules of
// what stands in for a page's parts while their scripts are loaded hold no longer than that, and a lost connection
// is told, and how large the type is that a room sees.

import { APP, CONNECTION, STANDS_IN } from "../canvas/streamlit.js";
import { glossary } from "../glossary/glossary.js";
import { keys } from "../presenter/keys.js";
import { stage } from "../presenter/lectern.js";
import { lead } from "../room/moments.js";

const PAGES = ".pages"; // all names
const LOOK = 50; // ms between two looks at whether all is there
const RESIZED = 300; // ms after the window's last change of size
const DRESSED = 200; // ms after the system's theme has changed, by when Streamlit knows it
let resized; // what waits for that
const SOON = 1500; // ms that a connection may be away unsaid
const WORDS =
  "The connection to the dashboard is lost. Pictures still play; controls wait. It comes back by itself. If it " +
  "does not, see whether the dashboard still runs in its terminal and whether this device is in its network; " +
  "then reload this page.";
let done = false; // these rules are the window's: one of them is enough
let path, timer, tell, tellType;
let type = 0; // px of the page's type, as the server knows it; 0 where the page is not shown to a room

/** Another page than the one that is shown is opened. */
function watchPages() {
  const push = history.pushState;
  history.pushState = (state, unused, url) => {
    leave(new URL(url ?? location.href, location.href).pathname);
    push(state, unused, url);
  };
}

/** Whether the rules of what stands in for parts hold. */
function waits(on) {
  const rules = document.getElementById("waiting"),
    media = on ? "all" : "not all";
  if (rules && rules.media !== media) rules.media = media;
}

/** Another page than the one that was last shown has parts of other kinds. */
function leave(to) {
  if (to !== path) waits(true);
}

/** Puts them aside once every part is there. */
function settle() {
  point(); // the names come late, too
  if (document.querySelector(STANDS_IN)) timer = setTimeout(settle, LOOK);
  else {
    waits(false);
    document.getElementById("presented")?.remove(); // a run has sent these rules by now
    measure();
  }
}

/** Tells the page's type, which follows the window's width: the server draws charts to match. */
function measure() {
  const now = Math.round(parseFloat(getComputedStyle(document.documentElement).fontSize));
  if (!type || now === type) return;
  type = now;
  tellType("type", type);
}

/** Shows the open page's name where not all have room. */
function point() {
  const row = document.querySelector(PAGES),
    here = row?.querySelector("[aria-current]");
  if (here) row.scrollLeft += middle(here) - middle(row);
}

function middle(element) {
  const { left, width } = element.getBoundingClientRect();
  return left + width / 2;
}

/** Opens a page in this window, unless another is asked for. */
function turn(event) {
  const page = event.target.closest?.(`${PAGES} a`)?.dataset.page;
  if (!page || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  tell("opened", page);
}

/**
 * `data` names the page, so that this is called when another is opened, its keys, and what its terms mean, and says
 * whether a room's phones follow this window.
 */
export default function show(frame) {
  const parts = [
    keys({ ...frame, data: frame.data.keys }),
    glossary({ ...frame, data: frame.data.meanings }),
    stage(frame),
  ];
  [tell, tellType, type] = [frame.setTriggerValue, frame.setStateValue, frame.data.type];
  lead(frame.data.leads);
  point();
  path = location.pathname;
  clearTimeout(timer);
  timer = setTimeout(settle);
  if (!done) watch();
  return () => parts.forEach((leave) => leave());
}

/** What is the window's, once. */
function watch() {
  done = true;
  watchPages();
  watchConnection(() => tell("back", true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    setTimeout(() => tell("back", true), DRESSED),
  );
  window.addEventListener("popstate", () => leave(location.pathname));
  document.addEventListener("click", turn);
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(measure, RESIZED);
  });
}

/**
 * Where the connection is lost our own words say what to do, and once it is back a run is asked for: a server that was
 * started again knows nothing, its first run takes what the address says, and a control that was moved before that run
 * would have been moved for nothing.
 */
function watchConnection(ask) {
  const app = document.querySelector(APP);
  let lost = false,
    timer;

  const tell = () => {
    const words = document.createElement("p");
    words.id = "connection-lost"; // which Streamlit's own dialog makes way for
    words.role = "alert";
    words.textContent = WORDS;
    document.body.append(words);
  };
  const look = () => {
    const connected = app.getAttribute(CONNECTION) === "CONNECTED";
    if (connected !== lost) return;
    lost = !connected;
    clearTimeout(timer);
    if (lost) timer = setTimeout(tell, SOON);
    else {
      document.getElementById("connection-lost")?.remove();
      ask();
    }
  };
  new MutationObserver(look).observe(app, { attributeFilter: [CONNECTION] });
}
